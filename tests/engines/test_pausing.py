"""A model server pauses: its calls wait, and so do its engines, in the dialect of each."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from nemo_gym.engines.pausing import EnginePause, PauseMode
from nemo_gym.failures import EngineError
from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.pausing import DEVELOPMENT_MODE
from nemo_gym.transport import Call
from nemo_gym.transport.control import CONTROL_ROUTES
from tests.engines.test_policy import Replicas
from tests.tokens.conversations import Conversation, Ground, model_server


def paths(app: EngineApp) -> list[str]:
    return [path for path, count in app.stats.requests.items() for _ in range(count) if "chat" not in path]


@pytest.mark.parametrize("mode", [PauseMode.ABORT, PauseMode.KEEP])
@pytest.mark.parametrize("in_development", [True, False], ids=["vllm", "sglang"])
async def test_new_calls_wait_until_the_engines_of_either_dialect_go_on(
    monkeypatch: pytest.MonkeyPatch, mode: PauseMode, in_development: bool
) -> None:
    monkeypatch.setenv(DEVELOPMENT_MODE, "1" if in_development else "0")
    ground = Ground()
    await ground.server._pausing.pause(EnginePause(mode=mode))
    call = asyncio.create_task(Conversation(ground, "session").ask())
    await asyncio.sleep(0.02)
    assert not ground.app.stats.requests["/v1/chat/completions"]
    await ground.server._pausing.resume(EnginePause())
    await call
    pauses, resumes = ["/pause", "/pause_generation"], ["/resume", "/continue_generation"]
    count = 1 if in_development else 2
    assert [path for path in paths(ground.app) if path in pauses + resumes] == [
        *pauses[:count],
        *resumes[:count],
    ]


async def test_an_engine_that_cannot_pause_is_named_and_nothing_is_paused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def engine(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b'{"detail": "Not Found"}'})

    server = model_server(engine)
    with pytest.raises(EngineError) as raised:
        await server._pausing.pause(EnginePause())
    assert raised.value.failure.code == "no_pause"
    assert "VLLM_SERVER_DEV_MODE" in (raised.value.failure.remedy or "")
    assert not server._policy.gate.is_closed
    monkeypatch.setenv(DEVELOPMENT_MODE, "0")
    with pytest.raises(EngineError, match="no route to pause with `wait`"):
        await Ground().server._pausing.pause(EnginePause(mode=PauseMode.WAIT))


async def test_an_engine_that_fails_in_the_pause_leaves_the_gate_open() -> None:
    async def engine(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b'{"message": "out of memory"}'})

    server = model_server(engine)
    with pytest.raises(EngineError, match="out of memory"):
        await server._pausing.pause(EnginePause())
    assert not server._policy.gate.is_closed
    server._policy.gate.close()
    with pytest.raises(EngineError, match="out of memory"):
        await server._pausing.resume(EnginePause())
    assert not server._policy.gate.is_closed


async def post(replicas: Replicas, path: str, **body: Any) -> int:
    headers = {"content-type": "application/json", "x-ng-token": replicas.TOKEN}
    call = Call("POST", path, orjson.dumps(body), headers)
    return (await replicas.transport.send("http://127.0.0.1:1", call)).status


async def test_all_processes_of_a_server_pause_and_resume() -> None:
    replicas = Replicas()
    assert await post(replicas, "/ng-pause", mode="abort") == 200
    assert [ground.server._policy.gate.is_closed for ground in replicas.grounds] == [True, True]
    assert await post(replicas, "/ng-resume") == 200
    assert [ground.server._policy.gate.is_closed for ground in replicas.grounds] == [False, False]
    replicas.grounds[1].server.middleware.access.token = "of another run"
    assert await post(replicas, "/ng-pause") == 401
    assert not replicas.grounds[0].server._policy.gate.is_closed, "half a pause is none"


def test_a_model_cannot_pause_its_server() -> None:
    assert {"/ng-pause", "/ng-resume"} <= CONTROL_ROUTES
