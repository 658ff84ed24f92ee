from __future__ import annotations

import pytest
from fastapi import FastAPI

from nemo_gym.protocol.episodes import EpisodeId, TaskId
from nemo_gym.protocol.resources_sessions import ResourcesCloseSessionRequest, ResourcesSeedSessionRequest
from nemo_gym.testing.session_conformance import check_resources_session_contract

SEED = ResourcesSeedSessionRequest(
    resources_session_id="s", episode_id=EpisodeId(rollout_id="r"), task_id=TaskId(taskset="t", task_id="0")
)


def sessions_app(*, forgets: bool = False, fails_on_repeat: bool = False, is_mute: bool = False) -> FastAPI:
    """A server that keeps sessions, and optionally breaks the contract."""
    app, opened, closed = FastAPI(), set[str](), set[str]()

    @app.post("/seed_session")
    async def seed(body: ResourcesSeedSessionRequest) -> dict[str, str]:
        name = body.resources_session_id
        assert name not in closed or forgets
        assert name not in opened or not fails_on_repeat
        opened.add(name)
        return {} if is_mute else {"resources_session_id": name}

    @app.post("/close_session")
    async def close(body: ResourcesCloseSessionRequest) -> dict[str, str]:
        closed.add(body.resources_session_id)
        return {"resources_session_id": body.resources_session_id}

    return app


def test_a_server_that_keeps_the_contract_passes() -> None:
    check_resources_session_contract(sessions_app(), SEED, keeps_state=True)
    check_resources_session_contract(sessions_app(forgets=True), SEED, keeps_state=False)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (sessions_app(forgets=True), "opening a session that is closed must be refused"),
        (sessions_app(fails_on_repeat=True), "opening it again answers 500"),
        (sessions_app(is_mute=True), "without its resources_session_id"),
        (FastAPI(), "opening a session answers 404"),
    ],
)
def test_a_server_that_breaks_it_fails(broken: FastAPI, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_resources_session_contract(broken, SEED, keeps_state=True)
