"""A conversation with follow-up questions: the smallest step-style environment."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.resources.gymnasium import GymnasiumServer, StepResult
from nemo_gym.rows.models import read_task
from nemo_gym.verify.answers import MAX_SEARCHED_CHARS, final_text
from nemo_gym.verify.matching import says


class FollowUpTask(BaseModel):
    """The fields of a task row."""

    follow_ups: list[str] = []
    """Questions that are asked in turn, each after the answer to the previous one."""
    expected_answer: str | None = None
    """A text that the last answer must contain and not deny. Without it every answer that is not empty is right."""


class FollowUpServer(GymnasiumServer):
    config: BaseResourcesServerConfig

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        task = read_task(FollowUpTask, metadata)
        self.session_state[session_id] = iter(task.follow_ups)
        return None, {}

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> StepResult:
        answer = final_text(action)
        if not answer:
            return None, 0.0, True, False, {"result": "no_answer"}
        follow_up: str | None = next(self.episode(session_id), None)
        if follow_up is not None:
            return follow_up, 0.0, False, False, {}
        expected = read_task(FollowUpTask, metadata).expected_answer
        is_right = expected is None or says(answer[-MAX_SEARCHED_CHARS:], expected)
        return None, float(is_right), True, False, {"result": "right" if is_right else "wrong"}


if __name__ == "__main__":
    FollowUpServer.run_webserver()
