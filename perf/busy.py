"""The share of an engine that a session keeps busy by each policy of staleness, beside the simulated share.

The gym runs as `ng_run` starts it. Its engine stub answers after lognormal seconds (sigma 1), so a rollout takes about
as long. A trainer takes 64 groups of 8 for a step of two median rollouts, while at most 512 are in flight, as in
`simulation.sessions.measure_busy`. `busy` is the mean of the rollouts in flight by 512 over the first `steps` steps,
`simulated` that of plays of the same steps. In longer runs slow groups take more of the places.

`+virtual=true` runs the real session and collector in virtual time instead, over the 200 steps of the values in
docs/train_asynchronously.md. `+plot=FILE.svg` draws both shares.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from nemo_gym.cli.command import Keys
from nemo_gym.client import AsyncGym
from nemo_gym.client._connecting import find_address
from nemo_gym.client._group import RolloutGroup
from nemo_gym.client._session import AsyncRolloutSession
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from perf.episodes import EPISODES
from perf.measure import Figures, in_fast_loop, tell
from perf.plot import draw_bars
from perf.rollouts import overrides
from perf.running_gym import running_gym
from simulation.served_sessions import measure_served
from simulation.sessions import POLICIES, SLOTS, STEP, TRAIN_S, build_options, measure_busy

_EPISODE = EPISODES["single-step"]
_TOKENS = "++policy_model.responses_api_models.vllm_model.return_token_id_information=true"
"""So that calls record the versions that sampled them."""
_EVERY_S = 0.1
_PLAYS = 8
_LONG = 200
"""Steps in virtual time."""
_SPARE = 1.5
"""Tasks by those that are trained on: some groups are cancelled, and others are in flight at the end."""


class Cell(NamedTuple):
    """A policy, and the number of steps that are measured: fewer of the slow ones."""

    policy: str
    bound: int
    steps: int

    @property
    def label(self) -> str:
        return self.policy if self.policy == "closed batches" else f"{self.policy}, bound {self.bound}"


CELLS = (
    Cell("closed batches", 0, 6),
    *(Cell("oldest first, wait", bound, steps) for bound, steps in ((1, 8), (2, 8), (4, 10))),
    *(
        Cell(policy, bound, steps)
        for policy in ("ready first, drop", "ready first, mask")
        for bound, steps in ((1, 12), (2, 16), (4, 20))
    ),
)


class BenchKeys(Keys):
    median_s: float = Field(1.0, gt=0, description="Seconds of the median rollout.")
    virtual: bool = Field(False, description="Virtual time, without a gym.")
    policies: list[str] | None = Field(None, description=f"Of: {'; '.join(POLICIES)}.")
    plot: Path | None = Field(None, description="SVG to draw.")


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return the busy shares by policy: the measured one is the median of `runs`, and the mean in virtual time."""
    unknown = set(keys.policies or ()) - set(POLICIES)
    assert not unknown, f"there are no policies {unknown}"
    figures: Figures = {}
    cells = [cell for cell in CELLS if keys.policies is None or cell.policy in keys.policies]
    for cell in cells:
        steps = _LONG if keys.virtual else cell.steps
        simulated = _simulate(cell, steps)
        busy = _serve(cell, runs) if keys.virtual else _measure(cell, runs, keys.median_s)
        difference = busy - simulated
        figures[cell.label] = {"simulated": simulated, "busy": busy, "difference": difference, "steps": steps}
        tell(f"{cell.label}: {busy:.3f}, simulated {simulated:.3f}")
    if keys.plot is not None:
        labels = {"simulated": "simulated", "busy": "session"}
        draw_bars(figures, labels, "share of 512 rollouts that are in flight", keys.plot)
    return figures


def _simulate(cell: Cell, steps: int) -> float:
    plays = (measure_busy(cell.policy, cell.bound, steps=steps, seed=seed) for seed in range(_PLAYS))
    return statistics.fmean(play.busy for play in plays)


def _serve(cell: Cell, runs: int) -> float:
    return statistics.fmean(measure_served(cell.policy, cell.bound, seed=seed) for seed in range(runs))


def _measure(cell: Cell, runs: int, median_s: float) -> float:
    return statistics.median(_measure_once(cell, median_s) for _ in range(runs))


def _measure_once(cell: Cell, median_s: float) -> float:
    mean_s = median_s * math.exp(0.5)
    options = EngineOptions.model_validate({**_EPISODE.policy, "latency_s": f"lognormal:{mean_s}:1"})
    with EngineProcess(options) as engine, running_gym([*overrides(_EPISODE, engine), _TOKENS]) as running:
        gym = AsyncGym(find_address(Path(running.folder)))
        return in_fast_loop(_train(gym, cell, median_s))


async def _train(gym: AsyncGym, cell: Cell, median_s: float) -> float:
    given: dict[str, Any] = build_options(cell.policy, cell.bound).model_dump(exclude_unset=True)
    count = math.ceil(_SPARE * STEP * (cell.steps + cell.bound + 2))
    rows = [{**_EPISODE.row, "number": number} for number in range(count)]
    given |= {"num_samples_in_parallel": SLOTS, "max_waiting_tasks": count, "agent_name": _EPISODE.agent}
    async with gym.session(**given) as session:
        await session.submit(rows)
        async with aclosing(session.groups()) as groups:
            watching = asyncio.create_task(_watch(session))
            await _take_steps(session, groups, cell.steps, median_s)
            watching.cancel()
            return statistics.fmean(await watching)


async def _take_steps(session: AsyncRolloutSession, groups: Any, steps: int, median_s: float) -> None:
    for _ in range(steps):
        batch: list[RolloutGroup] = [await anext(groups) for _ in range(STEP)]
        await asyncio.sleep(TRAIN_S * median_s)
        await session.consumed(*batch)
        async with session.update_policy(session.version + 1, engine="none"):
            pass


async def _watch(session: AsyncRolloutSession) -> list[float]:
    """Return the share of rollouts in flight at every moment until it is cancelled."""
    seen: list[float] = []
    while True:
        told: Mapping[str, Any] = (await session.describe())["run"]
        seen.append(len(told["in_flight"]) / SLOTS)
        try:
            await asyncio.sleep(_EVERY_S)
        except asyncio.CancelledError:
            return seen
