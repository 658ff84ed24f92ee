"""Scores per second, and CPU per score, of every environment's `verify` on its example rows.

A scripted policy plays the example rows through a gym in this process. Its answers are right if the row states the
right answer. The request for the score of an attempt is repeated, eight concurrently, with the session unchanged. The
figures cover the whole request: parsing, scoring, writing the answer.

`worker pool` is the environment as it is served, and `in process` is the same without worker processes. Environments
that use no worker process have one figure. The scripted policy is also the judge, and its CPU is included. Step-style
environments have no `verify` and are left out.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import Field

from nemo_gym import PARENT_DIR
from nemo_gym.cli.command import Keys
from nemo_gym.config.loading import load
from nemo_gym.launch.inline import InlineGym, inline
from nemo_gym.processes import workers
from nemo_gym.processes.workers import WorkerPool
from nemo_gym.testing.environment import read_rows
from nemo_gym.transport.directory import Directory
from perf.answers import answer_to
from perf.measure import Figures, family_of, in_fast_loop, medians

AT_ONCE = 8
IN_PROCESS, POOL = "in process", "worker pool"
_POLICY = "responses_api_models/scripted_model/configs/scripted_model.yaml"
R = TypeVar("R")


class BenchKeys(Keys):
    environments: list[str] | None = Field(
        None, description="Folders of `resources_servers/`; by default all with example rows."
    )
    seconds: float = Field(0.5, gt=0, description="Seconds of measurement per environment.")


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return scores per second and CPU ms per score by environment and way; the medians of `runs`."""
    names = keys.environments or [
        path.parts[-3] for path in sorted(PARENT_DIR.glob("resources_servers/*/data/example.jsonl"))
    ]
    measured = {name: medians([_measure(name, keys.seconds) for _ in range(runs)]) for name in names}
    return {name: figures for name, figures in measured.items() if figures}


def _measure(environment: str, seconds: float) -> Figures:
    rows = read_rows(f"resources_servers/{environment}/data/example.jsonl")
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.jsonl"
        answers.write_bytes(b"".join(_said_to(environment, row) for row in rows))
        overrides = [
            f"+config_paths=[resources_servers/{environment}/configs/{environment}.yaml,{_POLICY}]",
            f"++policy_model.responses_api_models.scripted_model.engine.answers={answers}",
        ]
        return in_fast_loop(_played(overrides, rows, seconds))


def _said_to(environment: str, row: Mapping[str, Any]) -> bytes:
    """Return a line of the policy's answer key, or an empty one if any answer will do."""
    answer = answer_to(environment, row)
    said = row["responses_create_params"]["input"]
    question = said if isinstance(said, str) else next(
        (item["content"] for item in reversed(said) if item.get("role") == "user"), None
    )  # fmt: skip
    if answer is None or not isinstance(question, str):
        return b""
    return orjson.dumps({"match": question, "answer": answer}) + b"\n"


async def _played(overrides: list[str], rows: Sequence[Mapping[str, Any]], seconds: float) -> Figures:
    async with inline(load(overrides, env_path=None)) as gym:
        repeated = [
            _repeat_verify(gym, name, seconds / len(rows)) for name in _names(gym, "resources_servers")
        ]
        (agent,) = _names(gym, "responses_api_agents")
        for row in rows:
            await gym.run(agent, row)
        return {way: figures for each in repeated for way, figures in each.figures().items()}


def _names(gym: InlineGym, kind: str) -> list[str]:
    return [name for name, block in gym.config.items() if isinstance(block, Mapping) and kind in block]


def _repeat_verify(gym: InlineGym, name: str, seconds: float) -> RepeatedVerify:
    url = Directory.from_config(gym.config).choose(name, None)
    repeated = gym.transport.apps[url] = RepeatedVerify(gym.transport.apps[url], seconds)
    return repeated


# --- Repeated requests for one score ----------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """The number of scores and their cost."""

    scores: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0

    def figures(self) -> Figures:
        return {"scores_per_s": self.scores / self.seconds, "cpu_ms": 1e3 * self.cpu_s / self.scores}


@dataclass(slots=True)
class RepeatedVerify:
    """Wraps an environment's app, and measures each `verify` request before answering it."""

    app: Any
    seconds: float
    tallies: dict[str, Tally] = field(default_factory=dict)
    uses_pool: bool = False

    def figures(self) -> Figures:
        """Return figures by way. Without jobs in worker processes, both ways are the same and one is left out."""
        return {
            way: tally.figures() for way, tally in self.tallies.items() if way == IN_PROCESS or self.uses_pool
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/verify":
            await self.app(scope, receive, send)
            return
        message = await receive()

        async def ask(answer: Callable[[Any], Any]) -> None:
            await self.app({**scope}, _once(message), answer)

        handed_over = _jobs_of_workers()
        await self._repeat(ask, POOL)
        self.uses_pool |= _jobs_of_workers() > handed_over
        with computed_here():
            await self._repeat(ask, IN_PROCESS)
        await ask(send)

    async def _repeat(self, ask: Callable[[Any], Any], way: str) -> None:
        await asyncio.gather(*(ask(_ignored) for _ in range(AT_ONCE)))  # imports, caches, workers
        tally = self.tallies.setdefault(way, Tally())
        began, cpu = time.perf_counter(), _cpu_s()
        while not tally.scores or time.perf_counter() - began < self.seconds:
            await asyncio.gather(*(ask(_ignored) for _ in range(AT_ONCE)))
            tally.scores += AT_ONCE
        tally.seconds += time.perf_counter() - began
        tally.cpu_s += _cpu_s() - cpu


def _once(message: Any) -> Any:
    """A `receive` for a given body, from a caller that stays connected."""
    given = iter((message,))

    async def receive() -> Any:
        for first in given:
            return first
        return await asyncio.get_running_loop().create_future()

    return receive


async def _ignored(message: Any) -> None:
    if message["type"] == "http.response.start" and message["status"] != 200:
        raise RuntimeError(f"`verify` answered HTTP {message['status']}")


def _jobs_of_workers() -> int:
    return sum(pool.completed for pool in workers.list_shared_stats())


def _cpu_s() -> float:
    """Return the CPU seconds of this process and all its children, including ended ones."""
    times = [process.cpu_times() for process in family_of(os.getpid())]
    return float(sum(each.user + each.system + each.children_user + each.children_system for each in times))


class _Here(WorkerPool):
    """A pool without workers, which runs jobs at once in this process."""

    async def submit(self, function: Callable[..., R], args: Any, kwargs: Any, **_: Any) -> R:
        return function(*args, **kwargs)


@contextmanager
def computed_here() -> Iterator[None]:
    """Run all jobs in this process while the block runs."""
    here = _Here()
    workers._default_pools.insert(0, here)
    try:
        yield
    finally:
        workers._default_pools.remove(here)
