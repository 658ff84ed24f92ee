from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.engines.model_calls import (
    CaptureStore,
    ModelCallCaptureConfig,
    aggregate_model_call_metrics,
    build_model_call_record,
    extract_token_stats,
    make_capture_store,
    read_available_model_call_records,
    read_model_call_records,
)
from nemo_gym.failures import InputError

RESPONSE = {
    "id": "resp_1",
    "status": "completed",
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Think."}]},
        {"type": "function_call", "name": "look", "arguments": '{"at":"sky"}', "call_id": "c1"},
    ],
    "usage": {"input_tokens": 5, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}},
}
CHAT = {
    "id": "chatcmpl_1",
    "choices": [
        {
            "finish_reason": "tool_calls",
            "message": {
                "reasoning_content": "Think.",
                "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": '{"at":"sky"}'}}],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "completion_tokens_details": {"reasoning_tokens": 1},
    },
}
MESSAGE = {
    "id": "msg_1",
    "stop_reason": "tool_use",
    "content": [
        {"type": "thinking", "thinking": "Think."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "sky"}},
    ],
    "usage": {"input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 2},
}


@pytest.mark.parametrize("response", [RESPONSE, CHAT, MESSAGE])
def test_every_dialect_has_the_same_record(response: dict[str, Any]) -> None:
    record = build_model_call_record({"response": response}, call_index=0)
    assert record.tool_calls == [{"name": "look", "arguments": {"at": "sky"}, "call_id": "c1"}]
    assert record.reasoning_content == "Think."
    assert (record.tokens_in, record.tokens_out, record.tokens_total) == (5, 2, 7)
    assert record.response_id == response["id"]


def test_cached_tokens_are_a_part_of_the_prompt() -> None:
    stats = extract_token_stats(MESSAGE["usage"])
    assert (stats["cached_tokens"], stats["cache_hit"]) == (2, True)
    assert extract_token_stats(None)["tokens_in"] is None


def test_exchanges_are_kept_by_rollout_in_order(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path / "calls")
    for number in range(3):
        store.record("0-0", {"model_call_id": f"call_{number}"})
    store.record("0-1", {"model_call_id": "other"})
    records = read_model_call_records(store, "0-0")
    assert [(each.call_index, each.model_call_id) for each in records] == [
        (0, "call_0"),
        (1, "call_1"),
        (2, "call_2"),
    ]
    assert read_model_call_records(store, "9-9") == []


def test_a_damaged_line_hides_no_other(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    store.path_for("0-0").write_text('{"model_call_id": "a"}\n{"torn\n{"model_call_id": "b"}\n')
    records, damaged = read_available_model_call_records(store, "0-0")
    assert ([each.call_index for each in records], damaged) == ([0, 2], 1)
    with pytest.raises(ValueError):
        store.read("0-0")


def test_counts_are_summed_over_the_calls_that_have_them(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    store.record("0-0", {"response": CHAT, "latency_ms": 10.0})
    store.record("0-0", {"error_category": "timeout", "latency_ms": 5.0})
    metrics = aggregate_model_call_metrics(store, "0-0")
    assert (metrics["num_calls"], metrics["tokens_total"], metrics["latency_total_ms"]) == (2, 7, 15.0)
    assert metrics["cached_tokens"] is None


@pytest.mark.parametrize("name", ["", "../up", ".hidden", "a/b", "a\0b"])
def test_an_id_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="file name"):
        CaptureStore(tmp_path).path_for(name)


def test_the_capture_needs_a_folder(tmp_path: Path) -> None:
    assert make_capture_store(ModelCallCaptureConfig()) is None
    with pytest.raises(ValueError, match="model_call_capture_dir"):
        ModelCallCaptureConfig(observability_enabled=True)
    store = make_capture_store(
        ModelCallCaptureConfig(observability_enabled=True, model_call_capture_dir=tmp_path)
    )
    assert store is not None
    assert store.root == tmp_path
