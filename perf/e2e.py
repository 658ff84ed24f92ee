"""The whole command `ng_e2e_collect_rollouts`, from start to exit, with collector, files and metrics.

The engine stub has its own process. The rate covers the time from the start of the command to its exit, including the
start and stop of the servers. `collecting_rollouts_per_s` is the rate of the collection alone, including its metrics.
`gym_cpu_ms` is the CPU of the command and all its servers; the engine stub's CPU is separate.

`of_the_rate_without_collector` compares with the closed loop of `python -m perf rollouts` at the same number in flight.
It is measured before and after each collection, because other programs of the machine come and go.
`of_the_cpu_without_collector` compares the CPU of a rollout: it holds on a busy machine, where rates do not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import orjson
import psutil
from pydantic import Field

from nemo_gym.cli.command import Keys
from nemo_gym.mock_engine import EngineProcess
from perf import rollouts
from perf.episodes import EPISODES
from perf.measure import Figures, cpu_s, median_of, tell
from perf.rollouts import PLACEMENTS, Placement, engine_of, overrides

EPISODE = "tool-calling"
REPEATS = 4
"""Rollouts of each task."""
_COMMAND = "from nemo_gym.cli.e2e_collect_rollouts import main; main()"


class BenchKeys(Keys):
    rollouts: int = Field(20_000, ge=REPEATS, description="Number of rollouts; a multiple of 4.")
    in_flight: int = Field(256, ge=1, description="Maximum number of rollouts in flight.")
    placements: list[Placement] | None = Field(None, description="Of: process, inline.")
    seconds: float = Field(3.0, gt=0, description="Seconds of the measurement without the collector.")


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return figures by placement, each medians of `runs` collections. Raises `RuntimeError` if incomplete."""
    return {
        placement: median_of(runs, lambda placement=placement: _compared(placement, keys))  # type: ignore[misc]
        for placement in keys.placements or PLACEMENTS
    }


def _compared(placement: Placement, keys: BenchKeys) -> Figures:
    tell(f"{placement}, without the collector")
    before = _without_collector(placement, keys)
    tell(f"{placement}, the whole command")
    collected = collect_once(placement, keys)
    tell(f"{placement}, without the collector again")
    after = _without_collector(placement, keys)
    rate = (before["rollouts_per_s"] + after["rollouts_per_s"]) / 2
    cpu_ms = (before["cpu_ms"] + after["cpu_ms"]) / 2
    return collected | {
        "rollouts_per_s_without_collector": rate,
        "cpu_ms_without_collector": cpu_ms,
        "of_the_rate_without_collector": collected["rollouts_per_s"] / rate,
        "collecting_of_the_rate_without_collector": collected["collecting_rollouts_per_s"] / rate,
        "of_the_cpu_without_collector": cpu_ms / collected["cpu_ms"],
    }


def _without_collector(placement: Placement, keys: BenchKeys) -> Figures:
    """Rate and CPU of a closed loop of attempts; the CPU is that of gym, client and engine stub."""
    load = rollouts.BenchKeys(
        episodes=[EPISODE],
        placements=[placement],
        in_flight=[keys.in_flight],
        latencies_s=[0.0],
        seconds=keys.seconds,
    )
    (figures,) = rollouts.run(1, load)[placement][EPISODE].values()
    engine_ms = figures["engine_cpu_ms_a_call"] * EPISODES[EPISODE].model_calls
    cpu_ms = figures["gym_cpu_ms"] + figures.get("client_cpu_ms", 0.0) + engine_ms
    return {"rollouts_per_s": figures["rollouts_per_s"], "cpu_ms": cpu_ms}


def collect_once(placement: Placement, keys: BenchKeys, *more: str, latency_s: float = 0.0) -> Figures:
    """Return the figures of the whole command, with `more` arguments, and an engine that takes `latency_s` an answer.

    Raises `RuntimeError` if it is incomplete.
    """
    episode = EPISODES[EPISODE]
    count = keys.rollouts // REPEATS * REPEATS
    with engine_of(episode, latency_s) as engine, tempfile.TemporaryDirectory() as name:
        tasks, output = Path(name, "tasks.jsonl"), Path(name, "rollouts.jsonl")
        tasks.write_bytes((episode.body() + b"\n") * (count // REPEATS))
        command = [
            *(
                sys.executable,
                "-c",
                _COMMAND,
                *overrides(episode, engine),
                "++head_server.port=0",
                "+json=true",
            ),
            *(
                f"+placement={placement}",
                f"+agent_name={episode.agent}",
                f"+num_samples_in_parallel={keys.in_flight}",
            ),
            *(f"+input_jsonl_fpath={tasks}", f"+num_repeats={REPEATS}", f"+output_jsonl_fpath={output}"),
            *more,
        ]
        figures = _timed(command, engine, count, cwd=name)
        rows = [orjson.loads(line) for line in output.read_bytes().splitlines()]
        if len(rows) != count or any(row["reward"] != 1.0 for row in rows):
            raise RuntimeError(f"{len(rows)} rows of {count}, or one that is not scored 1")
        return figures


def _timed(command: Sequence[str], engine: EngineProcess, count: int, *, cwd: str) -> Figures:
    stub = [psutil.Process(engine.pid)]
    stub_before, began = cpu_s(stub), time.perf_counter()
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, cwd=cwd, stdout=printed, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        printed.seek(0)
        errors.seek(0)
        if process.returncode:
            raise RuntimeError(
                f"the command exited with {process.returncode}: {errors.read().decode()[-1000:]}"
            )
        summary = orjson.loads(printed.read())
    gym_s, stub_s = used.ru_utime + used.ru_stime, cpu_s(stub) - stub_before
    return {
        "rollouts_per_s": count / seconds,
        "collecting_rollouts_per_s": count / summary["seconds"],
        "gym_cpu_ms": 1e3 * gym_s / count,
        "engine_cpu_ms": 1e3 * stub_s / count,
        "cpu_ms": 1e3 * (gym_s + stub_s) / count,
        "seconds": seconds,
    }
