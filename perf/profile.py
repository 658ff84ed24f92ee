"""CPU profile of tool-calling rollouts: shares of the gym's samples under load, by kind of work.

`py-spy` samples the gym's processes a few hundred times per second, C code included, with 64 attempts in flight. Each
sample is assigned to its innermost frame that belongs to a kind of work: the interpreter's work for orjson is JSON, its
work for `middleware.py` is the middleware. Threads other than the event loop's (the loop monitors) are excluded. A
process that waits for a core counts as busy, most often in a system call, so the share of system calls is too high if
cores are scarce.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Keys
from nemo_gym.failures import ConfigError
from perf.episodes import EPISODES
from perf.load import ClosedLoop, Windows
from perf.measure import Figures, in_fast_loop, medians
from perf.rollouts import PLACEMENTS, Placement, engine_of, gym_of

IN_FLIGHT = 64
_EPISODE = "tool-calling"
_SAMPLES_A_S = 200
_SETTLES_S = 1.0

KINDS: Mapping[str, str] = {
    "reading and writing sockets, polling": r"^(writev?|readv?|recv\w*|send\w*|epoll_\w+) \([^)]*libc",
    "JSON (orjson)": r"orjson",
    "validation (pydantic)": r"pydantic",
    "HTTP parsing (httptools)": r"httptools/|llhttp|parser\.c",
    "garbage collection": r"^gc_collect",
    "asyncio: tasks, timeouts, the running loop": r"asyncio/|_asynciomodule|contextvars",
    "event loop (uvloop)": r"uvloop|(loop|core|stream|linux|timer|loop-watcher|udp)\.c:|queue\.h:",
    "HTTP server": r"uvicorn/",
    "framework (starlette, fastapi)": r"starlette/|fastapi/|anyio/",
    "client and transport": r"nemo_gym/transport/|multidict|yarl",
    "middleware, routes, sessions": r"nemo_gym/serving/|nemo_gym/processes/loop_monitor",
    "conversion and engine calls": r"nemo_gym/(responses|tokens|engines)/|responses_api_models/",
    "episode and agent": r"nemo_gym/(episodes|agents|resources)/|responses_api_agents/",
    "environment": r"resources_servers/",
    "the benchmark's client": r"/perf/\w+\.py",
}
"""Frame patterns by kind of work, in `py-spy`'s form `function (file:line)`."""
_REST = "the rest"
_PATTERNS = [(kind, re.compile(pattern)) for kind, pattern in KINDS.items()]
_BESIDE_THE_LOOP = re.compile(r"threading\.py|select_select_impl|select_epoll_poll")
"""Frames of waiting threads and of the launcher, which the profiler sometimes reports as busy."""


class BenchKeys(Keys):
    seconds: float = Field(4.0, gt=0, description="Seconds of profiling per placement.")


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return percentages of the CPU by kind of work and placement, largest first."""
    profiler = _profiler()
    measured = {
        placement: medians([_profiled(placement, profiler, keys.seconds) for _ in range(runs)])
        for placement in PLACEMENTS
    }
    kinds = sorted(KINDS, key=lambda kind: -measured["inline"][kind])
    return {
        kind: {placement: measured[placement][kind] for placement in PLACEMENTS} for kind in (*kinds, _REST)
    }


def _profiler() -> str:
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise ConfigError(
            "py-spy is not installed", code="no_profiler", remedy="pip install py-spy, and run it again."
        )
    return found


def _profiled(placement: Placement, profiler: str, seconds: float) -> Figures:
    episode = EPISODES[_EPISODE]

    async def profile() -> Figures:
        async with gym_of(placement, episode, engine) as (send, groups):
            load = ClosedLoop(send, IN_FLIGHT)
            endless = asyncio.create_task(load.measured(groups, Windows(10**6, budget_s=10**6)))
            try:
                await asyncio.sleep(_SETTLES_S)
                stacks = await _sampled(
                    profiler, groups["gym"][0].pid, seconds, family=placement == "process"
                )
            finally:
                endless.cancel()
                await asyncio.wait([endless])
        return shares_of(stacks)

    with engine_of(episode, 0.0) as engine:
        return in_fast_loop(profile())


async def _sampled(profiler: str, pid: int, seconds: float, *, family: bool) -> str:
    """Return the profiler's output: one line per stack, with its frames from the outermost in and its sample count."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "stacks"
        options = ["--duration", f"{seconds:.0f}", "--rate", str(_SAMPLES_A_S), "--format", "raw", "--native"]
        recording = await asyncio.create_subprocess_exec(
            profiler, "record", "--pid", str(pid), *(["--subprocesses"] if family else []),
            "--full-filenames", *options, "--output", str(output),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await recording.communicate()
        if not output.exists():
            raise RuntimeError(f"py-spy saw nothing: {said.decode(errors='replace').strip()}")
        return output.read_text()


def shares_of(stacks: str) -> Figures:
    """Return percentages of the samples by kind of work."""
    counts: Counter[str] = Counter()
    for frames, count in _stacks_of_loops(stacks):
        counts[_kind_of(frames)] += count
    total = counts.total() or 1
    return {kind: 100 * counts[kind] / total for kind in (*KINDS, _REST)}


def _stacks_of_loops(stacks: str) -> Iterator[tuple[list[str], int]]:
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack and not _BESIDE_THE_LOOP.search(stack):
            yield stack.split(";"), int(count)


def _kind_of(frames: list[str]) -> str:
    for frame in reversed(frames):
        for kind, pattern in _PATTERNS:
            if pattern.search(frame):
                return kind
    return _REST
