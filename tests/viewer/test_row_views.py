"""The parts of a row that the page shows equal those that trainers read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.rollouts.lookback.health import check_health
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from nemo_gym.viewer.indexing import LinePlace
from nemo_gym.viewer.row_views import build_card, build_flags, build_tokens


def contract_item(prompt: list[int], generated: list[int]) -> dict[str, Any]:
    return {
        "type": "message",
        "content": [{"type": "output_text", "text": "x"}],
        "prompt_token_ids": prompt,
        "generation_token_ids": generated,
        "generation_log_probs": [-0.5] * len(generated),
    }


ROW = {
    "responses_create_params": {"input": "First line\nof the task"},
    "response": {
        "output": [
            contract_item([1, 2], [3, 4]),
            contract_item([1, 2, 3, 4, 5], [6]),
            contract_item([9, 9], [7]),
        ]
    },
}


def test_segments_are_those_of_the_row() -> None:
    shown = build_tokens(ROW)
    assert shown is not None
    segments = build_segments(read_calls(ROW))
    assert [each["ids"] for each in shown["segments"]] == [segment.token_ids for segment in segments]
    assert [each["mask"] for each in shown["segments"]] == [segment.loss_mask for segment in segments]
    assert [each["reason"] for each in shown["segments"]] == [segment.reason for segment in segments]
    spans = shown["segments"][0]["spans"]
    assert [(span["start"], span["end"], span["call"], span["part"]) for span in spans] == [
        tuple(each) for each in ((span.start, span.end, span.call, span.part) for span in segments[0].spans)
    ]
    orjson.dumps(shown)


def test_texts_are_those_of_the_vocabulary() -> None:
    vocabulary = {1: b"<s>", 2: " ä".encode(), 3: b"\xc3", 4: b"\xa4"}
    shown = build_tokens(ROW, vocabulary)
    assert shown is not None
    texts = {"1": "<s>", "2": " ä", "3": {"b64": "ww=="}, "4": {"b64": "pA=="}}
    assert [each["texts"] for each in shown["segments"]] == [texts, {}]


def test_a_row_without_tokens_has_none() -> None:
    assert build_tokens({"response": {"output": []}}) is None


def test_a_card_has_the_task_and_the_last_message() -> None:
    assert build_card(ROW) == {"title": "First line of the task", "answer": "x"}
    assert build_card({}) == {"title": "", "answer": ""}
    assert build_card({"response": {"output": [{"type": "message", "content": "text"}]}})["answer"] == "text"


@pytest.mark.parametrize("params", [None, 3, "text", [], [1], {"input": 3}, {"input": [3, {"content": 4}]}])
@pytest.mark.parametrize(
    "response", [None, 3, "text", {"output": 3}, {"output": [3]}, {"output": [{"type": "message"}]}]
)
def test_a_card_of_an_odd_row_is_empty(params: Any, response: Any) -> None:
    assert build_card({"responses_create_params": params, "response": response}) == {
        "title": "",
        "answer": "",
    }


def test_flags_lead_to_the_places_of_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    rows = [{**ROW, "_ng_task_index": task, "_ng_rollout_index": 0, "reward": 1.0} for task in range(3)]
    rows[1]["response"] = {"output": []}
    lines = [orjson.dumps(row) + b"\n" for row in rows]
    path.write_bytes(b"".join(lines))
    starts = [sum(map(len, lines[:number])) for number in range(3)]
    places = [LinePlace(start, len(line)) for start, line in zip(starts, lines, strict=True)]
    flags = {flag["name"]: flag for flag in build_flags(check_health(path), places)}
    (finding,) = flags["empty_turn"]["findings"]
    assert finding == {"text": "the response has no output", "task": 1, "place": places[1]}
