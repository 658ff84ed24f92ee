"""No call is lost when the agent's program, the agent server or the model server is killed during an attempt."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.mock_engine import MockEngine, ModelReply
from nemo_gym.mock_engine.conversation import Message
from tests.harnesses.laws import check_laws
from tests.harnesses.policies import RepairPolicy
from tests.harnesses.repairs import ENGINE, play, record_in, skip_unless_installed
from tests.ports import free_port, until_accepts

pytestmark = pytest.mark.harnesses
HARNESS = "codex"
BEFORE, KILL_AT = 3, 4


class EndingPolicy(RepairPolicy):
    """Lets the agent end every process in its sandbox."""

    def commands(self, conversation: Sequence[Message]) -> list[str]:
        return [*super().commands(conversation)[: self.looks], "kill -9 -1"]


class WatchedPolicy(RepairPolicy):
    """Calls `at_turn` during one of its answers."""

    def __init__(self, at_turn: Callable[[], None]) -> None:
        super().__init__(2 * BEFORE)
        self._at_turn = at_turn

    def next_turn(self, conversation: Sequence[Message], names: Sequence[str]) -> ModelReply:
        if self.replies == KILL_AT:
            self._at_turn()
        return super().next_turn(conversation, names)


async def test_the_program_is_killed(tmp_path: Path) -> None:
    skip_unless_installed(HARNESS)
    policy = EndingPolicy(BEFORE)
    row, record, _ = await play(HARNESS, tmp_path, policy)
    assert row["_ng_end_reason"] == "agent_exited"
    assert policy.replies == BEFORE + 1
    check_laws(record, policy.replies)


@pytest.mark.parametrize("killed", ["model server", "agent server"])
async def test_a_server_is_killed(killed: str, tmp_path: Path) -> None:
    skip_unless_installed(HARNESS)
    processes: dict[str, subprocess.Popen[bytes]] = {}
    port = free_port()

    def kill() -> None:
        processes[killed].send_signal(signal.SIGKILL)
        if killed == "model server":
            processes[killed].wait()
            processes[killed] = _start("engines.gateway.served", str(tmp_path), engine.base_url, str(port))

    policy = WatchedPolicy(kill)
    async with MockEngine(ENGINE, policy=policy) as engine:
        try:
            processes["model server"] = _start(
                "engines.gateway.served", str(tmp_path), engine.base_url, str(port)
            )
            await until_accepts(port)
            row = tmp_path.parent / f"{tmp_path.name}.json"
            with row.open("wb") as output:
                processes["agent server"] = _start(
                    "harnesses.attempt", HARNESS, str(port), stdout=output.fileno()
                )
            await asyncio.to_thread(processes["agent server"].wait)
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
    record, _ = record_in(tmp_path)
    # The engine's answer during the kill may have reached no server.
    answered = sum(call["status_code"] == 200 for call in record["calls"])
    assert policy.replies - 1 <= answered <= policy.replies
    check_laws(record, answered)
    if killed == "model server":
        assert orjson.loads(row.read_bytes())["reward"] == 1.0


def _start(module: str, *arguments: str, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"tests.{module}", *arguments]
    return subprocess.Popen(command, cwd=PARENT_DIR, stdout=stdout)
