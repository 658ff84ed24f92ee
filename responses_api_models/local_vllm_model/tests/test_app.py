"""local_vllm_model: the engine's command, its start, its restarts and its end, with the engine stub as the engine."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict
from pydantic import Field

from nemo_gym.engines.policy import PolicyUpdate
from nemo_gym.failures import ConfigError, EngineError
from nemo_gym.processes.process_tree import list_descendants
from nemo_gym.transport import Reply
from nemo_gym.transport.control import CONTROL_ROUTES
from nemo_gym.transport.server_client import ServerClient, ServerReply
from responses_api_models.local_vllm_model.app import LocalVLLMModel
from responses_api_models.local_vllm_model.engine_process import flags_of
from tests.waiting import until

STUB = (
    f"{shlex.quote(sys.executable)} -m nemo_gym.cli.mock_engine +model={{model}} +port={{port}} +policy=echo"
)


def server_of(**options: Any) -> LocalVLLMModel:
    server = LocalVLLMModel.standalone(**{"model": "mock", "command": STUB, **options})
    assert isinstance(server, LocalVLLMModel)
    return server


def engines() -> list[int]:
    """The processes of engines that this process started."""
    return [pid for pid in list_descendants(os.getpid()) if _is_engine(pid)]


def _is_engine(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"nemo_gym.cli.mock_engine" in words


async def answer_of(server: LocalVLLMModel) -> str:
    response = await server.respond({"input": "hello"})
    return str(response["output"][-1]["content"][0]["text"])


async def test_the_engine_lives_as_long_as_the_server() -> None:
    server = server_of()
    async with server.alive():
        assert await answer_of(server) == "hello"
        assert (await server.preflight())["ok"]
        assert len(engines()) == 1
    assert engines() == []


async def test_a_killed_engine_is_restarted_up_to_the_bound() -> None:
    server = server_of(max_restarts=1)
    local = server._local
    async with server.alive():
        os.kill(engines()[0], signal.SIGKILL)
        await until(lambda: local._restarts_left == 0)
        assert await answer_of(server) == "hello"  # it waited for the restart
        os.kill(engines()[0], signal.SIGKILL)
        await until(lambda: local._failure)
        with pytest.raises(EngineError, match="while it served requests"):
            await answer_of(server)


class ClientOfReplicas(ServerClient):
    """The client of a server with two processes. It records what it posts to them."""

    posted: list[str] = Field(default_factory=list)

    def has_replicas(self, server_name: str) -> bool:
        return True

    async def post_everywhere(self, server_name: str, url_path: str, *, json: Any) -> list[ServerReply]:
        self.posted.append(url_path)
        reply = Reply(200, CIMultiDict(), b'{"dropped": 0}')
        return [ServerReply(reply, "POST", url_path) for _ in range(2)]


async def test_the_weights_of_all_engines_are_reloaded_before_the_version_changes() -> None:
    server = server_of(vllm_serve_env_vars={"VLLM_SERVER_DEV_MODE": "1"})
    client = ClientOfReplicas(
        head_server_config=server.server_client.head_server_config, global_config_dict={}
    )
    server.server_client = client
    await server.update_policy(PolicyUpdate(version=1, reload_weights=True))
    assert client.posted == ["/reload_weights", "/policy_version"]
    async with server.alive():
        await server.update_policy(PolicyUpdate(version=2, reload_weights=True, everywhere=False))
        assert (await server._policy.show()) == {"version": 2}
        stats = (await server._engine.call("GET", "/stats", at_root=True)).reply.json()
        assert stats["requests"]["/collective_rpc"] == 1
    assert "/reload_weights" in CONTROL_ROUTES


async def test_a_call_in_flight_is_made_again_when_its_engine_was_killed() -> None:
    server = server_of(command=f"{STUB} +latency_s=1")
    async with server.alive():
        call = asyncio.create_task(answer_of(server))
        await until(lambda: server._local._calls)
        (before,) = engines()
        os.kill(before, signal.SIGKILL)
        assert await call == "hello"
        assert engines() != [before]
        call = asyncio.create_task(answer_of(server))
        await until(lambda: server._local._calls)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_an_engine_that_does_not_start_fails_the_server() -> None:
    server = server_of(command=f"{shlex.quote(sys.executable)} -c 'raise SystemExit(3)'")
    with pytest.raises(EngineError, match="ended with code 3 before it was healthy"):
        await server.on_start()


async def test_a_program_that_is_not_installed_is_named() -> None:
    with pytest.raises(ConfigError, match="`no-such-engine` is not installed"):
        await server_of(command="no-such-engine serve {model}").on_start()


def test_a_command_with_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be filled in"):
        server_of(command="vllm serve {modell}")


def test_vllm_is_the_default_command() -> None:
    server = LocalVLLMModel.standalone(
        model="org/model",
        vllm_serve_kwargs={"tensor_parallel_size": 8, "hf_overrides": {"a": 1}},
        vllm_serve_env_vars={"A": "1"},
        hf_home="/cache",
    )
    assert isinstance(server, LocalVLLMModel)
    command = server._local._command
    assert command[:3] == ["vllm", "serve", "org/model"]
    assert command[-5:] == [
        "--disable-log-stats",
        "--tensor-parallel-size",
        "8",
        "--hf-overrides",
        '{"a": 1}',
    ]
    assert server.config.engine_variables() == {"HF_HOME": "/cache", "A": "1"}


def test_flags_of_every_kind_of_value() -> None:
    given = {"trust_remote_code": True, "enable_prefix_caching": False, "seed": None, "dtype": "bfloat16"}
    assert flags_of(given) == ["--trust-remote-code", "--no-enable-prefix-caching", "--dtype", "bfloat16"]
