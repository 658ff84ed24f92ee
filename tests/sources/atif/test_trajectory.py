"""The rules of the format. `tests/folders/test_atif.py` compares them with Harbor's own."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from nemo_gym.sources.atif.trajectory import AtifTrajectory
from tests.sources.atif.test_reading import CALL, answers, asks, trajectory

SUBAGENT = {key: value for key, value in trajectory(asks()).items() if key != "session_id"}
WRONG: dict[str, dict[str, Any]] = {
    "an unknown field": trajectory(asks(), reward=1),
    "no step": trajectory(),
    "an unknown version": trajectory(asks(), schema_version="ATIF-v2.0"),
    "a step out of order": trajectory({**asks(), "step_id": 2}),
    "a source": trajectory({"source": "tool", "message": ""}),
    "metrics of the user": trajectory({**asks(), "metrics": {}}),
    "a call without arguments": trajectory(answers(tool_calls=[{**CALL, "arguments": "ls"}])),
    "a result in another step": trajectory(
        answers(tool_calls=[CALL]), answers(observation={"results": [{"source_call_id": "c"}]})
    ),
    "metrics without a call": trajectory(answers(llm_call_count=0, metrics={"prompt_tokens": 1})),
    "a time": trajectory({**asks(), "timestamp": "yesterday"}),
    "a subagent without a name": trajectory(asks(), subagent_trajectories=[SUBAGENT]),
    "two subagents of one name": trajectory(
        asks(), subagent_trajectories=[{**SUBAGENT, "trajectory_id": "a"}] * 2
    ),
    "an image as audio": trajectory(
        {"source": "user", "message": [{"type": "audio", "source": {"media_type": "image/png", "path": "a"}}]}
    ),
    "a text with a source": trajectory(
        {
            "source": "user",
            "message": [{"type": "text", "text": "", "source": {"media_type": "x", "path": "a"}}],
        }
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_trajectory_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        AtifTrajectory.model_validate(WRONG[name])


@pytest.mark.parametrize("minor", range(9))
def test_every_version_is_read(minor: int) -> None:
    AtifTrajectory.model_validate(trajectory(asks(), answers(), schema_version=f"ATIF-v1.{minor}"))
