"""Whole messages and whether they choose the expected option in the lenient form (see choices.py)."""

from __future__ import annotations

import json
from pathlib import Path

from nemo_gym.verify.answers import final_text
from resources_servers.mcqa.choices import ChoiceFormat, read_choice


def test_messages_are_read_as_a_careful_grader_reads_them() -> None:
    cases = list(map(json.loads, Path(__file__).with_name("messages.jsonl").read_text("utf-8").splitlines()))
    assert {case["accept"] for case in cases} == {True, False}
    wrong = []
    for case in cases:
        message = {"type": "message", "role": "assistant", "content": case["message"]}
        letter = read_choice(final_text({"output": [message]}), case["options"], ChoiceFormat.LENIENT)
        if (letter == case["expected"]) is not case["accept"]:
            wrong.append((case["message"], letter))
    assert wrong == []
