"""The base of environment servers: admission, time limit, failures as data, and cleanup on every path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import PrivateAttr

from nemo_gym.base_environment_server import (
    BaseEnvironmentServer,
    BaseEnvironmentServerConfig,
    CleanupContext,
    CleanupHandle,
    HandledEpisodeError,
)
from nemo_gym.episode_types import BaseEpisodeRequest, BaseEpisodeResponse, EpisodeFailure
from nemo_gym.rollout_correlation import current_rollout_id
from tests.rollouts.doubles import run_virtually

Request = BaseEpisodeRequest[dict[str, Any]]
Response = BaseEpisodeResponse[dict[str, Any]]
BODY = {
    "episode_id": {"rollout_id": "3-0", "attempt": 1},
    "task": {"task_id": {"taskset": "s", "task_id": "t"}, "task_input": {"question": "2+2"}},
}
REQUEST = Request.model_validate(BODY)
Play = Callable[[CleanupContext], Awaitable[dict[str, Any]]]


class Stage(BaseEnvironmentServer[Request, Response]):
    config: BaseEnvironmentServerConfig
    request_model = Request
    response_model = Response
    _play: Play | None = PrivateAttr(default=None)
    _closed: list[str] = PrivateAttr(default_factory=list)

    def closing(self, name: str, failures: int = 0) -> Callable[[], Awaitable[None]]:
        """Return a cleanup that notes its name, after it has failed `failures` times."""
        left = [failures]

        async def close() -> None:
            if left[0]:
                left[0] -= 1
                raise RuntimeError(f"{name} is busy")
            await asyncio.sleep(0)
            self._closed.append(name)

        return close

    async def run(self, request: Request, cleanup: CleanupContext) -> Response:
        cleanup.register_cleanup("resources session", self.closing("resources"))
        cleanup.register_cleanup("agent session", self.closing("agent"))
        assert self._play is not None
        result = await self._play(cleanup)
        return Response(episode_id=request.episode_id, task_id=request.task.task_id, result=result)


def stage(play: Play, **options: Any) -> Stage:
    server = Stage.standalone(**options)
    assert isinstance(server, Stage)
    server._play = play
    return server


async def succeed(cleanup: CleanupContext) -> dict[str, Any]:
    return {"rollout": current_rollout_id()}


async def hang(cleanup: CleanupContext) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


def test_an_episode_is_run_by_http_in_its_rollout() -> None:
    server = stage(succeed)
    with TestClient(server.setup_webserver()) as client:
        answer = client.post("/run", json=BODY)
        assert answer.json()["result"] == {"rollout": "3-0-a1"}
        assert answer.json()["failure"] is None
        refused = client.post("/run", json={"task": {}})
    assert server._closed == ["agent", "resources"], "in reverse order"
    assert refused.status_code == 422
    assert "episode_id" in refused.json()["error"]["message"]


async def test_a_handled_failure_is_data() -> None:
    async def fail(cleanup: CleanupContext) -> dict[str, Any]:
        raise HandledEpisodeError(EpisodeFailure(failure_reason="no seat", stage="seed", terminal=True))

    server = stage(fail)
    answer = await server.run_request(REQUEST)
    assert answer.result is None
    assert (answer.failure.failure_reason, answer.failure.stage, answer.failure.terminal) == (
        "no seat",
        "seed",
        True,
    )
    assert server._closed == ["agent", "resources"]


async def test_another_error_is_raised_after_the_cleanup() -> None:
    async def fail(cleanup: CleanupContext) -> dict[str, Any]:
        raise TimeoutError("of the author's own")

    server = stage(fail)
    with pytest.raises(TimeoutError, match="author's own"):
        await server.run_request(REQUEST)
    assert server._closed == ["agent", "resources"]


async def test_an_episode_that_takes_too_long_is_a_failure_that_may_be_repeated() -> None:
    server = stage(hang, default_episode_timeout_seconds=0.01)
    answer = await server.run_request(REQUEST)
    assert (answer.failure.failure_reason, answer.failure.terminal) == ("Episode timed out", False)
    assert server._closed == ["agent", "resources"]


async def test_a_cancelled_episode_is_cleaned_up() -> None:
    started = asyncio.Event()

    async def wait(cleanup: CleanupContext) -> dict[str, Any]:
        started.set()
        return await hang(cleanup)

    server = stage(wait)
    task = asyncio.create_task(server.run_request(REQUEST))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server._closed == ["agent", "resources"]


async def test_an_episode_that_is_not_admitted_in_time_starts_nothing() -> None:
    entered = asyncio.Event()

    async def wait(cleanup: CleanupContext) -> dict[str, Any]:
        entered.set()
        return await hang(cleanup)

    server = stage(wait, max_concurrent_episodes=1, queue_timeout_seconds=0.01)
    first = asyncio.create_task(server.run_request(REQUEST))
    await entered.wait()
    answer = await server.run_request(REQUEST)
    assert (answer.failure.failure_reason, answer.failure.stage) == (
        "Episode admission timed out",
        "admission",
    )
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    server._play = succeed
    assert (await server.run_request(REQUEST)).failure is None


async def test_a_cleanup_runs_once_if_it_succeeds_and_again_if_it_fails() -> None:
    handles: list[CleanupHandle] = []

    async def close_early(cleanup: CleanupContext) -> dict[str, Any]:
        handles.append(cleanup.register_cleanup("done early", server.closing("early")))
        handles.append(cleanup.register_cleanup("busy", server.closing("busy", failures=1)))
        await handles[0].close()
        with pytest.raises(RuntimeError, match="busy"):
            await handles[1].close()
        return {}

    server = stage(close_early)
    assert (await server.run_request(REQUEST)).failure is None
    assert server._closed == ["early", "busy", "agent", "resources"]


def test_a_cleanup_that_hangs_does_not_keep_the_others_from_running() -> None:
    async def register(cleanup: CleanupContext) -> dict[str, Any]:
        async def never() -> None:
            await asyncio.Event().wait()

        cleanup.register_cleanup("stuck session", never)
        return {}

    async def main() -> list[str]:
        server = stage(register)
        assert (await server.run_request(REQUEST)).failure is None
        return server._closed

    assert run_virtually(main()) == ["agent", "resources"]
