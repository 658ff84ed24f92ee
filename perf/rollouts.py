"""Rollouts per second and the gym's cost per rollout, by episode, placement, number in flight and engine latency.

The engine stub has its own process on the same cores; so does the client, except inline. Their CPU is measured
separately and is not the gym's, but the cores are shared, so rates are for all processes together. Inline, the client
is part of the gym's process and its CPU counts as the gym's. `engine_core_share` is the load of the stub's only core;
near 1 the stub is the bottleneck. `cores_busy` is the number of cores that gym, stub and client used together. If it is
well below the machine's cores with an instant engine, other processes used the rest.

The floor is the cost of the same number of requests between bare ASGI apps, with the same client and in the same run.
`of_the_ideal` is the ratio of the rate to the ideal rate: the number in flight divided by the engine's time, or the
rate with an instant engine in the same run if that is lower.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import psutil
from pydantic import Field

from nemo_gym.cli.command import Keys
from nemo_gym.config.loading import load
from nemo_gym.launch.inline import inline
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rollouts.run.discovery import find_gym
from nemo_gym.transport import Call
from nemo_gym.transport.deadline import DEADLINE_HEADER
from nemo_gym.transport.directory import Directory
from perf.episodes import EPISODES, Episode
from perf.floor import Hop, floor_of_a_hop
from perf.load import ClosedLoop, Groups, Measured, Send, Window, Windows
from perf.measure import Figures, in_fast_loop, tell
from perf.running_gym import running_gym

Placement: TypeAlias = Literal["process", "inline"]
PLACEMENTS: tuple[Placement, ...] = ("process", "inline")
IN_FLIGHT = (1, 64, 1_024, 4_096)
LATENCIES_S = (0.0, 2.0)
_HEADERS = {"content-type": "application/json", DEADLINE_HEADER: "1798.000"}
"""The headers of an attempt by a collector with the default `+rollout_timeout_s`."""


class Setting(NamedTuple):
    """The setting of a measurement."""

    placement: Placement
    episode: str
    latency_s: float


class BenchKeys(Keys):
    episodes: list[str] | None = Field(None, description="Of: single-step, tool-calling, 20-turn.")
    placements: list[Placement] | None = Field(None, description="Of: process, inline.")
    in_flight: list[int] | None = Field(None, description="Numbers of attempts in flight.")
    latencies_s: list[float] | None = Field(None, description="Seconds per engine answer.")
    seconds: float = Field(1.0, gt=0, description="Minimum seconds of a measurement.")

    def settings(self) -> dict[Setting, Sequence[int]]:
        """Return the settings and numbers in flight. Without keys, combinations that take minutes are left out."""
        chosen = (self.episodes, self.placements, self.in_flight, self.latencies_s)
        if all(choice is None for choice in chosen):
            return {
                Setting(placement, episode, latency_s): in_flight
                for placement in PLACEMENTS
                for (episode, latency_s), in_flight in _STANDARD.items()
            }
        return {
            Setting(placement, episode, latency_s): self.in_flight or IN_FLIGHT
            for placement, episode, latency_s in product(
                self.placements or PLACEMENTS, self.episodes or EPISODES, self.latencies_s or LATENCIES_S
            )
        }


_STANDARD = {
    ("single-step", 0.0): IN_FLIGHT,
    ("tool-calling", 0.0): IN_FLIGHT,
    ("20-turn", 0.0): (1, 64, 1_024),
    ("tool-calling", 2.0): (1_024, 4_096, 10_000),
}


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return figures by placement, episode and load, each the median of `runs` windows of a steady load."""
    floor = floor_of_a_hop()
    figures: Figures = {"floor": {"server_cpu_ms": floor.server_cpu_ms, "client_cpu_ms": floor.client_cpu_ms}}
    instant: dict[tuple[str, str], float] = {}
    for setting, in_flight in keys.settings().items():
        tell(f"{setting.placement}, {setting.episode}, engine {setting.latency_s:g} s")
        loads = _measured_loads(setting, in_flight, Windows(runs, keys.seconds))
        for number, measured in zip(in_flight, loads, strict=True):
            cell = _figures_of(setting, number, measured, floor, instant)
            name = f"{number} in flight, engine {setting.latency_s:g} s"
            figures.setdefault(setting.placement, {}).setdefault(setting.episode, {})[name] = cell
    return figures


def _measured_loads(setting: Setting, in_flight: Sequence[int], how: Windows) -> list[Measured]:
    """Measure one gym and one engine under successive loads."""
    episode = EPISODES[setting.episode]
    spread_s = episode.model_calls * setting.latency_s

    async def measure() -> Figures:
        async with gym_of(setting.placement, episode, engine) as (send, groups):
            loads = [ClosedLoop(send, number, spread_s=spread_s) for number in in_flight]
            return {"loads": [await each.measured(groups, how) for each in loads]}

    with engine_of(episode, setting.latency_s) as engine:
        loads: list[Measured] = in_fast_loop(measure())["loads"]
    return loads


# --- The gym and what is around it ------------------------------------------------------------------------------


@contextmanager
def engine_of(episode: Episode, latency_s: float) -> Iterator[EngineProcess]:
    with (
        tempfile.TemporaryDirectory() as folder,
        EngineProcess(episode.engine_options(latency_s, Path(folder))) as engine,
    ):
        yield engine


@asynccontextmanager
async def gym_of(
    placement: Placement, episode: Episode, engine: EngineProcess
) -> AsyncIterator[tuple[Send, Groups]]:
    """Yield a function that makes one attempt as a collector does, and the groups of processes."""
    body = episode.body()
    around = {"engine": [psutil.Process(engine.pid)]}
    if placement == "inline":
        async with inline(load(overrides(episode, engine), env_path=None)) as gym:
            url = Directory.from_config(gym.config).choose(episode.agent, None)
            call = Call("POST", "/run", body, dict(_HEADERS))
            yield (lambda: gym.transport.send(url, call)), {"gym": [psutil.Process()], **around}
        return
    async with started_gym(episode, engine) as (send, groups):
        yield send, groups


@asynccontextmanager
async def started_gym(
    episode: Episode, engine: EngineProcess, *more: str
) -> AsyncIterator[tuple[Send, Groups]]:
    """Yield the same for a gym that `ng_run` starts, with `more` overrides."""
    body = episode.body()
    with running_gym([*overrides(episode, engine), *more]) as running:
        caller = (await find_gym(Path(running.folder))).caller()
        servers = {f"server {name}": [psutil.Process(pid)] for name, pid in running.pids.items()}
        around = {"engine": [psutil.Process(engine.pid)], "client": [psutil.Process()]}
        try:
            yield (
                (lambda: caller.call(episode.agent, "POST", "/run", body=body, headers=dict(_HEADERS))),
                {"gym": running.processes(), **around, **servers},
            )
        finally:
            await caller.transport.close()


def overrides(episode: Episode, engine: EngineProcess) -> list[str]:
    """Return the command line of a gym that plays `episode` with `engine`."""
    policy = [f"+policy_base_url={engine.base_url}", "+policy_api_key=none", "+policy_model_name=mock"]
    return [episode.configs, *policy]


# --- Figures ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spent:
    """Medians over the windows of a load."""

    windows: list[Window]

    def rate(self) -> float:
        return statistics.median(window.attempts / window.seconds for window in self.windows)

    def cpu_ms(self, group: str) -> float:
        return statistics.median(1e3 * window.cpu_s[group] / window.attempts for window in self.windows)

    def latency_s(self, share: float) -> float:
        return statistics.median(window.percentile(share) for window in self.windows)

    def cores(self, *groups: str) -> float:
        """Return the number of cores that the groups used."""
        return statistics.median(
            sum(window.cpu_s[group] for group in groups) / window.seconds for window in self.windows
        )


def _figures_of(
    setting: Setting, in_flight: int, measured: Measured, floor: Hop, instant: dict[tuple[str, str], float]
) -> Figures:
    """Return the figures of one load. `instant` holds the best instant-engine rates by placement and episode."""
    episode, spent = EPISODES[setting.episode], Spent(measured.windows)
    answered, made = episode.hops
    floor_ms = answered * floor.server_cpu_ms + made * floor.client_cpu_ms
    groups = [group for group in ("gym", "engine", "client") if group in measured.memory_mb]
    figures: Figures = {
        "rollouts_per_s": spent.rate(),
        "gym_cpu_ms": spent.cpu_ms("gym"),
        "times_the_floor": spent.cpu_ms("gym") / floor_ms,
        "engine_cpu_ms_a_call": spent.cpu_ms("engine") / episode.model_calls,
        "engine_core_share": spent.cores("engine"),
        "cores_busy": spent.cores(*groups),
        "p50_s": spent.latency_s(0.5),
        "p99_s": spent.latency_s(0.99),
        "gym_memory_mb": measured.memory_mb["gym"],
        "memory_mb": sum(measured.memory_mb[group] for group in groups),
        "failed": sum(window.failed for window in measured.windows),
        "windows": len(measured.windows),
    }
    if "client" in groups:
        figures["client_cpu_ms"] = spent.cpu_ms("client")
        servers = [group for group in measured.memory_mb if group.startswith("server ")]
        figures["cpu_ms_of"] = {group.removeprefix("server "): spent.cpu_ms(group) for group in servers}
    key = (setting.placement, setting.episode)
    if not setting.latency_s:
        instant[key] = max(spent.rate(), instant.get(key, 0.0))
        return figures
    engine_s = episode.model_calls * setting.latency_s
    ideal = in_flight / engine_s
    return {
        **figures,
        "of_in_flight_by_latency": spent.rate() / ideal,
        "of_the_ideal": spent.rate() / min(ideal, instant.get(key, ideal)),
        "overhead_p50_s": spent.latency_s(0.5) - engine_s,
        "overhead_p99_s": spent.latency_s(0.99) - engine_s,
    }
