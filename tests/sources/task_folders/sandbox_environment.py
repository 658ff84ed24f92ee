"""Environments whose sessions have a sandbox that the test has started."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.names import NEXT_TURN_KEY, TURN_KEY
from nemo_gym.rows.models import BaseSeedSessionResponse
from nemo_gym.sandbox import AsyncSandbox
from nemo_gym.sources.task_folders.environment import TaskFoldersVerifyRequest, TaskFoldersVerifyResponse

SANDBOX: list[AsyncSandbox] = []
"""The one sandbox of the test."""
CONNECTED_AS = ["rootless"]
CHANGES: dict[str, Any] = {}
"""Members of the sandbox's description that replace its own."""


class Opened(BaseSeedSessionResponse):
    sandbox_access: dict[str, Any] | None = None


class SandboxEnvironment(SimpleResourcesServer):
    """Opens a session with the one sandbox of the test, and rewards the number in its file `answer`."""

    config: BaseResourcesServerConfig

    async def seed_session(self, request: Request) -> Opened:  # type: ignore[override]
        descriptor = await SANDBOX[0].serialize()
        connection = {"provider_config_ref": CONNECTED_AS[0], "descriptor": {**descriptor, **CHANGES}}
        return Opened(sandbox_access={"connection": connection})

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        done = await SANDBOX[0].exec("cat answer || echo 0")
        return BaseVerifyResponse(**dict(body), reward=float(done.stdout or 0))


class TwoTurns(SandboxEnvironment):
    """Answers the first verification with a second turn."""

    async def verify(self, body: TaskFoldersVerifyRequest) -> TaskFoldersVerifyResponse:  # type: ignore[override]
        asked = [{"type": "message", "role": "user", "content": "the second step"}]
        is_first = not (body.model_extra or {}).get(TURN_KEY, 0)
        following = {NEXT_TURN_KEY: {"input": asked}} if is_first else {}
        given = {"responses_create_params": body.responses_create_params, "response": body.response}
        return TaskFoldersVerifyResponse(**given, reward=1.0, **following)
