from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.engines.gateway.openings import Openings, RolloutRefusal, RolloutTerms
from nemo_gym.engines.gateway.requests import compute_limits, drop_markers, pin_terms


def test_the_limit_of_an_answer_has_the_name_of_its_api() -> None:
    terms = RolloutTerms.model_validate({"sampling": {"max_tokens": 5}, "model": "m"})
    assert pin_terms({"max_tokens": 9, "model": "x"}, terms, "chat") == {
        "max_completion_tokens": 5,
        "model": "m",
    }
    assert pin_terms({}, terms, "responses") == {"max_output_tokens": 5, "model": "m"}
    assert pin_terms({"max_tokens": 9}, terms, "messages") == {"max_tokens": 5, "model": "m"}
    asked = {"max_tokens": 9}
    assert pin_terms(asked, RolloutTerms(), "messages") is asked


def test_the_rest_of_the_budget_limits_an_answer(tmp_path: Path) -> None:
    opening = Openings(tmp_path, "s").open(RolloutTerms(max_sampled_tokens=100, max_calls=3))
    assert compute_limits({"max_tokens": 50}, opening, 0, 80)["max_tokens"] == 20
    assert compute_limits({"max_tokens": 50}, opening, 0, 10)["max_tokens"] == 50
    assert compute_limits({"input": "x"}, opening, 2, 99)["max_output_tokens"] == 1
    assert compute_limits({"input": "x"}, Openings(tmp_path, "s").open(RolloutTerms()), 9, 9) == {}
    for calls, sampled in ((3, 0), (0, 100)):
        with pytest.raises(RolloutRefusal, match="budget"):
            compute_limits({}, opening, calls, sampled)


def test_marks_for_a_cache_are_no_part_of_a_request() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    text: dict[str, Any] = {"type": "text", "text": "a"}
    marked = {"type": "text", "text": "a", **mark}
    body = {
        "system": [marked],
        "tools": [{"name": "t", "input_schema": {"properties": mark}, **mark}],
        "messages": [{"role": "user", "content": [marked, {"type": "tool_result", "content": [marked]}]}],
        **mark,
    }
    assert drop_markers(body) == {
        "system": [text],
        "tools": [{"name": "t", "input_schema": {"properties": mark}}],
        "messages": [{"role": "user", "content": [text, {"type": "tool_result", "content": [text]}]}],
    }
