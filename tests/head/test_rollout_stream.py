from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from nemo_gym.failures import InputError
from nemo_gym.head._rollout_request import RolloutRequest, RolloutRequestOptions
from nemo_gym.head._rollout_stream import LineBuffer, RolloutStream
from nemo_gym.names import END_KEY
from nemo_gym.rollouts.control.routes import answer
from nemo_gym.rollouts.control.run_control import RunControl
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.plan.task_rows import TaskShaper
from tests.rollouts.doubles import Agents, Behaviour, always, failure, run_virtually, scored, task_row


def request_for(rows: int, **options: Any) -> RolloutRequest:
    shaper = TaskShaper()
    tasks = [shaper.shape(orjson.dumps(task_row(number))) for number in range(rows)]
    return RolloutRequest(tasks, RolloutRequestOptions(**options))


class Reader:
    """Takes what is sent, each chunk in `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self.status = 0
        self.lines: list[dict[str, Any]] = []
        self.ended = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        await asyncio.sleep(self._seconds)
        self.lines += [orjson.loads(line) for line in message["body"].splitlines()]
        self.ended = not message["more_body"]

    @property
    def rollouts(self) -> list[tuple[int, int]]:
        return [(line["_ng_task_index"], line["_ng_rollout_index"]) for line in self.lines[:-1]]

    @property
    def end(self) -> dict[str, Any]:
        end: dict[str, Any] = self.lines[-1][END_KEY]
        return end


async def _nothing() -> Any:
    await asyncio.Event().wait()


def stream(agents: Agents, reader: Reader, rows: int, **options: Any) -> None:
    async def main() -> None:
        await RolloutStream(request_for(rows, **options), agents, {})({}, _nothing, reader.send)

    run_virtually(main())


def after(seconds: float, behaviour: Behaviour | None = None) -> Behaviour:
    async def behave(task: PlannedAttempt) -> Any:
        await asyncio.sleep(seconds)
        return await behaviour(task) if behaviour else scored(task)

    return behave


def test_rollouts_come_as_they_finish_and_then_the_end() -> None:
    reader = Reader()
    agents = Agents({0: after(3), 1: after(1), 2: after(2)})
    stream(agents, reader, 3, num_repeats=2)
    assert reader.status == 200
    assert [task for task, _ in reader.rollouts] == [1, 1, 2, 2, 0, 0]
    assert reader.end == {
        "end": "complete",
        "planned": 6,
        "scored": 6,
        "failed": 0,
        "discarded": 0,
        "cancelled": 0,
        "stop": None,
    }
    assert reader.ended


def test_a_failure_is_a_line_and_is_reported_once() -> None:
    reader = Reader()
    agents = Agents({1: always(failure("engine_down", retryable=True))})
    stream(agents, reader, 2, max_attempts=3)
    failed = next(line for line in reader.lines if line.get("_ng_task_index") == 1)
    assert failed["_ng_failure_class"] == "engine:engine_down"
    assert "reward" not in failed
    assert sum(agents.attempts.values()) == 4
    assert len(reader.lines) == 3
    assert (reader.end["end"], reader.end["failed"]) == ("partial", 1)


def test_what_fails_alike_again_and_again_is_given_up_with_its_reason() -> None:
    reader = Reader()
    agents = Agents({number: always(failure("bad_key")) for number in range(100)})
    stream(agents, reader, 100, stop_after_identical_failures=5, num_samples_in_parallel=1)
    assert reader.end["end"] == "systemic_failure"
    assert "the engine says bad_key" in reader.end["stop"]["message"]
    assert len(agents.attempts) == 5


def test_no_rows_are_answered_by_the_end() -> None:
    reader = Reader()
    stream(Agents(), reader, 0)
    assert reader.end["planned"] == 0
    assert reader.ended


def test_no_more_are_in_flight_than_asked_for() -> None:
    agents = Agents(seconds=1.0)
    stream(agents, Reader(), 30, num_samples_in_parallel=4)
    assert agents.most_in_flight == 4


def test_a_slow_reader_slows_the_run() -> None:
    """Rollouts take a tenth of the time that a line takes to be read: what is done and unread stays bounded."""
    window, done_at_once = 4, []
    reader = Reader(seconds=1.0)

    class Counting(Agents):
        async def attempt(self, task: PlannedAttempt) -> Any:
            done_at_once.append(sum(self.attempts.values()) - len(reader.lines))
            return await super().attempt(task)

    stream(Counting(seconds=0.1), reader, 200, num_samples_in_parallel=window)
    assert len(reader.rollouts) == 200
    assert max(done_at_once) <= 4 * window


async def test_few_lines_may_wait_where_they_are_long() -> None:
    lines = LineBuffer(64, most_bytes=1000)
    for _ in range(10):
        await asyncio.wait_for(lines.room(), 1)
        lines.put(b"x" * 100)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lines.room(), 0.01)
    assert await lines.take() == ((b"x" * 100 + b"\n") * 10, False)
    await asyncio.wait_for(lines.room(), 1)
    lines.end(b"end")
    assert await lines.take() == (b"end\n", True)


async def test_the_socket_is_handed_a_chunk_at_a_time() -> None:
    lines = LineBuffer(64)
    for number in range(4):
        lines.put(b"%d" % number * 200_000)
    lines.end(b"end")
    chunks = [await lines.take() for _ in range(3)]
    assert [len(chunk) for chunk, _ in chunks] == [400_002, 400_002, 4]
    assert [is_last for _, is_last in chunks] == [False, False, True]


def test_a_window_wider_than_the_plan_is_no_wider() -> None:
    agents, reader = Agents(), Reader()
    stream(agents, reader, 3, num_samples_in_parallel=10**9)
    assert reader.end["scored"] == 3


def test_a_reader_that_leaves_cancels_everything() -> None:
    agents, reader = Agents(seconds=100.0), Reader()

    async def main() -> None:
        answering = asyncio.create_task(RolloutStream(request_for(50), agents, {})({}, _nothing, reader.send))
        await asyncio.sleep(1)
        assert agents.in_flight == 50
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        assert agents.in_flight == 0

    run_virtually(main())
    assert reader.lines == []


def test_a_request_for_rollouts_is_paused_retuned_and_drained_by_its_name() -> None:
    runs: dict[str, RunControl] = {}
    reader, agents = Reader(), Agents(seconds=10.0)

    async def ask(verb: str, body: bytes = b"") -> Any:
        return await answer(runs, "POST", f"/_ng/runs/rollouts-1/{verb}", body)

    async def main() -> None:
        response = RolloutStream(request_for(50, num_samples_in_parallel=5), agents, runs)
        assert response.headers["x-ng-run"] == "rollouts-1"
        streaming = asyncio.create_task(response({}, _nothing, reader.send))
        await asyncio.sleep(25.0)
        await ask("pause")
        await asyncio.sleep(1000.0)
        assert agents.in_flight == 0
        await ask("set", b'{"num_samples_in_parallel": 2}')
        await ask("resume")
        await asyncio.sleep(5.0)
        assert agents.in_flight == 2
        with pytest.raises(InputError, match="have been sent to the caller"):
            await ask("requeue")
        await ask("drain")
        await streaming

    run_virtually(main())
    assert sorted(reader.rollouts) == [(task, 0) for task in range(17)]
    assert (reader.end["end"], reader.end["cancelled"]) == ("drained", 0)
    assert [event["verb"] for event in reader.end["control"]] == ["pause", "set", "resume", "drain"]
    assert runs == {}
