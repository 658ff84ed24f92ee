from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.ecosystem.model_calls import (
    aggregate_model_call_metrics,
    build_model_call_record,
    extract_token_stats,
    read_model_call_records,
)
from nemo_gym.engines.record.store import CaptureStore

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


def test_counts_are_summed_over_the_calls_that_have_them(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    store.record("0-0", {"response": CHAT, "latency_ms": 10.0})
    store.record("0-0", {"error_category": "timeout", "latency_ms": 5.0})
    metrics = aggregate_model_call_metrics(store, "0-0")
    assert (metrics["num_calls"], metrics["tokens_total"], metrics["latency_total_ms"]) == (2, 7, 15.0)
    assert metrics["cached_tokens"] is None
