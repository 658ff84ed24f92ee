"""In-memory replacements for the servers of a collection, and a clock that tests advance."""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import orjson

from nemo_gym.failures import Boundary, Failure
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult
from nemo_gym.rows.identity import RolloutId

AGENT = "simple_agent"

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Moves the clock to the next timer instead of sleeping until then."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout > 0:
            self.now += timeout
            timeout = 0
        return super().select(timeout)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in which an hour passes at once."""

    def __init__(self) -> None:
        self.jumping = _JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run `func` at once: time would pass while a thread works."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is raised where the future is awaited
            future.set_exception(error)
        return future


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


class MemoryOutput:
    """Keeps rows and failures as parsed JSON."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failures: list[dict[str, Any]] = []

    def add_row(self, line: bytes) -> None:
        self.rows.append(orjson.loads(line))

    def add_failure(self, line: bytes) -> None:
        self.failures.append(orjson.loads(line))


Behaviour = Callable[[PlannedAttempt], Awaitable[AttemptResult]]


class Agents:
    """Answers every attempt by echoing the row with a reward, unless told otherwise for a task."""

    def __init__(self, behaviours: dict[int, Behaviour] | None = None, *, seconds: float = 0.0) -> None:
        self._behaviours = behaviours or {}
        self._seconds = seconds
        self.attempts: Counter[RolloutId] = Counter()
        self.in_flight = 0
        self.most_in_flight = 0

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        self.attempts[task.identity] += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self._seconds)
            behaviour = self._behaviours.get(task.identity.task)
            return await behaviour(task) if behaviour else scored(task)
        finally:
            self.in_flight -= 1


def scored(task: PlannedAttempt, reward: Any = 1.0, **fields: Any) -> AgentAnswer:
    """The answer of an agent of ours: the row, and what the verifier made of it."""
    row = {**orjson.loads(task.body()), "response": {"output": []}, "reward": reward, **fields}
    return AgentAnswer(row, orjson.dumps(row))


def failure(code: str = "engine_down", *, retryable: bool = False) -> Failure:
    return Failure(Boundary.ENGINE, code, f"the engine says {code}", retryable=retryable, remedy="Start it.")


def always(result: AttemptResult) -> Behaviour:
    """The same result for every attempt."""

    async def behave(task: PlannedAttempt) -> AttemptResult:
        return result

    return behave


def all_planned(identity: RolloutId) -> bool:
    return True


def planned(task: int, repeat: int = 0, *, agent: str = AGENT) -> PlannedAttempt:
    identity = RolloutId(task, repeat)
    rest = orjson.dumps(task_row(task, agent=agent))[1:]
    return PlannedAttempt(identity, agent, identity.head() + rest)


def task_row(number: int = 0, *, agent: str | None = AGENT, **fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "responses_create_params": {"input": f"question {number}"},
        "answer": number,
        **fields,
    }
    if agent is not None:
        row["agent_ref"] = {"type": "responses_api_agents", "name": agent}
    return row


def write_dataset(path: Path, count: int, *, agent: str | None = AGENT) -> Path:
    path.write_bytes(b"".join(orjson.dumps(task_row(number, agent=agent)) + b"\n" for number in range(count)))
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def identities(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows]
