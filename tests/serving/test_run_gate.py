"""The gate of `/run`: it holds attempts as long as it is told to, and opens by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nemo_gym.failures import AgentError, CancelledFailure
from nemo_gym.serving.run_gate import GateRequest, RunGate
from nemo_gym.transport.request_body import WholeBody
from tests.rollouts.doubles import run_virtually

ROW = b'{"_ng_task_index": 3, "_ng_rollout_index": 1}'
MARK = (b"x-ng-controlled", b"1")


async def never() -> Any:
    raise AssertionError("the body is whole")


async def enter(
    gate: RunGate, seconds: float = 1.0, *headers: tuple[bytes, bytes], path: str = "/run", body: bytes = ROW
) -> str:
    async def handle(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(seconds)

    async def send(message: Any) -> None:
        raise AssertionError(message)

    await gate(handle, {"path": path, "headers": [*headers]}, WholeBody(body, never), send)
    return "done"


def test_a_gate_that_hears_nothing_opens() -> None:
    async def main() -> float:
        gate = RunGate()
        await gate.ask(GateRequest(phase="paused", seconds=15))
        began = asyncio.get_running_loop().time()
        await enter(gate)
        return asyncio.get_running_loop().time() - began

    assert run_virtually(main()) == pytest.approx(16.0)


def test_other_routes_and_marked_attempts_pass_and_are_not_listed() -> None:
    async def main() -> dict[str, Any]:
        gate = RunGate()
        await gate.ask(GateRequest(phase="draining", seconds=15))
        calls = [enter(gate, 1.0, MARK), enter(gate, 1.0, path="/v1/responses")]
        tasks = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0.5)
        told = gate.describe()
        assert await asyncio.gather(*tasks) == ["done", "done"]
        with pytest.raises(AgentError, match="draining"):
            await enter(gate)
        return told

    assert run_virtually(main()) == {"in_flight": [], "unnamed": 0, "waiting": 0}


def test_attempts_are_listed_by_their_rows_and_those_that_wait_counted() -> None:
    async def main() -> None:
        gate = RunGate()
        await gate.ask(GateRequest(most=2, seconds=15))
        tasks = [asyncio.create_task(enter(gate, body=body)) for body in (ROW, b"[]", ROW)]
        await asyncio.sleep(0.5)
        told = gate.describe()
        assert ([each[:2] for each in told["in_flight"]], told["unnamed"], told["waiting"]) == (
            [[3, 1]],
            1,
            1,
        )
        await asyncio.gather(*tasks)
        assert gate.describe() == {"in_flight": [], "unnamed": 0, "waiting": 0}

    run_virtually(main())


def test_one_is_cancelled_alone_and_a_client_that_leaves_cancels_as_ever() -> None:
    async def main() -> None:
        gate = RunGate()
        named, other = (asyncio.create_task(enter(gate, body=body)) for body in (ROW, b"{}"))
        await asyncio.sleep(0.1)
        await gate.ask(GateRequest(cancel=[(3, 1)]))
        with pytest.raises(CancelledFailure, match="by a request of the gym's control"):
            await named
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other
        assert gate.describe()["unnamed"] == 0

    run_virtually(main())


def test_a_client_that_leaves_while_it_waits_counts_no_more() -> None:
    async def main() -> None:
        gate = RunGate()
        await gate.ask(GateRequest(phase="paused", seconds=15))
        waiting = asyncio.create_task(enter(gate))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert gate.describe()["waiting"] == 0

    run_virtually(main())
