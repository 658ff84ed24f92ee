"""Options of an engine, and the policy that they describe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nemo_gym.mock_engine.options import EngineOptions, build_policy
from nemo_gym.mock_engine.policies import EchoPolicy, ThinkingPolicy, ToolsPolicy
from tests.mock_engine.wire import running


async def test_answers_and_scripts_are_read_from_their_files(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"match": "1 + 2", "answer": "It is 3."}\n')
    (tmp_path / "script.yaml").write_text("- turns: [{text: As written.}]")
    async with (
        running(policy="answer", answers=tmp_path / "answers.jsonl") as answering,
        running(policy="script", script=tmp_path / "script.yaml") as scripted,
    ):
        _, right = await answering.chat()
        _, written = await scripted.chat()
    assert right["choices"][0]["message"]["content"] == "It is 3."
    assert written["choices"][0]["message"]["content"] == "As written."


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"policy": "echo"}, EchoPolicy),
        ({}, ToolsPolicy),
        ({"think": True}, ThinkingPolicy),
    ],
)
def test_the_policy_is_the_one_of_the_options(fields: dict[str, Any], kind: type) -> None:
    assert type(build_policy(EngineOptions(**fields))) is kind


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"policy": "answer"}, "needs the file `answers`"),
        ({"policy": "script"}, "needs the file `script`"),
        ({"polcy": "echo"}, "polcy"),
        ({"accuracy": 1.5}, "accuracy"),
        ({"latency_s": "soon"}, "latency_s"),
    ],
)
def test_options_that_cannot_be_used_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        EngineOptions(**fields)
