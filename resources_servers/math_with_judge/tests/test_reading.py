"""The answer that whole messages state, compared with the expected one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.verify.answers import final_text
from resources_servers.math_with_judge.math_equality import compare
from resources_servers.math_with_judge.reading import find_math_answer


async def test_messages_are_read_as_a_careful_grader_reads_them() -> None:
    cases = list(map(json.loads, Path(__file__).with_name("messages.jsonl").read_text("utf-8").splitlines()))
    assert {case["accept"] for case in cases} == {True, False}
    wrong = []
    for case in cases:
        message = {"type": "message", "role": "assistant", "content": case["message"]}
        answer = find_math_answer(final_text({"output": [message]}), case["expected"])
        is_accepted = answer is not None and (await compare(case["expected"], answer)).is_equal
        if is_accepted is not case["accept"]:
            wrong.append((case["message"], case["expected"], answer))
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Answer: The train travels 240 miles.", "240"),
        ("Answer: approximately 3.14", "3.14"),
        ("Answer: The answer depends on whether it is 3 or 4.", "The answer depends on whether it is 3 or 4"),
        ("No idea.", None),
    ],
)
def test_a_line_that_is_a_sentence_is_its_value(text: str, answer: str | None) -> None:
    assert find_math_answer(text, "1") == answer
