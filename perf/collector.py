"""The collector alone: rows of 4 KB per second, memory over 200,000 rows, and seconds to resume a run.

The collector has its own process and works as in `ng_collect_rollouts`: it reads the dataset, keeps 64 attempts in
flight, classifies every answer, and writes rows, materialized inputs, manifest and metrics. The agent is a stub that
appends the same 4 KB to each task row. In memory its cost is negligible. Over HTTP (a quarter of the rows) it is a bare
ASGI app in another process, and the measurement includes the collector's client.

Rates are medians over the tenths of a run: rows per second, and rows per second of the collector's CPU. The latter is
the capacity of one core, even if the stub or another process on the machine limits the former. Memory is the peak
resident size in all, the peak while rows are written, and the growth from the first rollout to the end of the metrics.
A run with one rollout per task needs the most memory. Resuming is measured on such a run without its last hundredth:
the time to the first rollout, and the total.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import psutil
import uvloop
from multidict import CIMultiDict
from pydantic import Field

from nemo_gym.cli.command import Keys
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.transport import Call, HttpTransport, Reply, Transport
from perf.floor import answer, body_of, served
from perf.measure import Figures, cpu_s, medians

ROW_BYTES = 4_000
IN_PARALLEL = 64
_AGENT = "stub_agent"
_OUTPUT = "rollouts.jsonl"
_TENTHS = 10
_LEFT_OUT = 0.01
_OVER_HTTP = 0.25
FOUR = "in memory, 4 rollouts a task"
ONE = "in memory, 1 rollout a task"
OVER_HTTP = "over HTTP"
RESUME = "resume"


class BenchKeys(Keys):
    rows: int = Field(200_000, ge=1_000, description="Number of rows.")


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return rows per second, memory and CPU with the agent in memory and over HTTP, and the cost of resuming."""
    return medians([_run_once(keys.rows) for _ in range(runs)])


def _run_once(rows: int) -> Figures:
    with tempfile.TemporaryDirectory() as name:
        four = _collect_in_child(Path(name), rows, repeats=4)
    with tempfile.TemporaryDirectory() as name:
        one = _collect_in_child(Path(name), rows, repeats=1)
        _cut(Path(name, _OUTPUT))
        resumed = _collect_in_child(Path(name), rows, repeats=1)
    with tempfile.TemporaryDirectory() as name, served(lambda: _agent_app) as agent:
        sent = round(rows * _OVER_HTTP)
        over_http = _collect_in_child(Path(name), sent, repeats=4, agent_url=agent.url)
        stub_cpu_s = cpu_s([psutil.Process(agent.pid)])
    return {
        FOUR: four,
        ONE: one,
        OVER_HTTP: over_http | {"stub_cpu_ms_a_row": 1e3 * stub_cpu_s / sent},
        RESUME: {
            name: resumed[name] for name in ("until_first_rollout_s", "seconds", "cpu_s", "peak_memory_mb")
        },
    }


def _cut(output: Path) -> None:
    """Remove the last hundredth of the rows."""
    with output.open("r+b") as file:
        file.seek(round((1 - _LEFT_OUT) * output.stat().st_size))
        file.readline()
        file.truncate(file.tell())


def _collect_in_child(folder: Path, rows: int, *, repeats: int, agent_url: str = "") -> Figures:
    command = [sys.executable, "-m", "perf.collector", str(folder), str(rows), str(repeats), agent_url]
    figures: Figures = orjson.loads(subprocess.check_output(command))
    return figures


# --- The stub agent ---------------------------------------------------------------------------------------------

_PARAMS = {"input": [{"role": "user", "content": "x" * 300}]}
_SAID = "y" * (ROW_BYTES - 700)
_SCORED = b"," + orjson.dumps({
    "response": {
        "id": "resp_1", "object": "response", "created_at": 0, "model": "stub", "parallel_tool_calls": True,
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": _SAID}]}],
        "usage": {"input_tokens": 100, "output_tokens": 800, "total_tokens": 900},
    },
    "reward": 1.0, "_ng_outcome": "completed",
})[1:]  # fmt: skip


_NO_HEADERS: CIMultiDict[str] = CIMultiDict()


def scored(row: bytes) -> bytes:
    """Return the task row with its score."""
    return row[:-1] + _SCORED


async def _agent_app(scope: Any, receive: Any, send: Any) -> None:
    body = await body_of(receive)
    await answer(send, scored(body) if body else b"{}")


class StubAgent:
    """A transport that answers as the agent, or leads to it, and records the times of its calls."""

    def __init__(self, inner: Transport | None, rows: int) -> None:
        self._inner = inner
        self._each = max(1, rows // _TENTHS)
        self._sent = 0
        self.first_s = 0.0
        self.tenths: list[tuple[float, float]] = []
        """Wall-clock and CPU seconds of this process at the start of each tenth of the rows."""
        self.peaks_mb: list[float] = []
        """Memory while rows are written, before metrics are computed."""

    async def send(self, base_url: str, call: Call) -> Reply:
        if call.path == "/run":
            self._note()
        if self._inner is not None:
            return await self._inner.send(base_url, call)
        await asyncio.sleep(0)
        return Reply(200, _NO_HEADERS, scored(call.body or b"{}"))

    def _note(self) -> None:
        now = time.perf_counter()
        self.first_s = self.first_s or now
        if self._sent % self._each == 0:
            self.tenths.append((now, time.process_time()))
            self.peaks_mb.append(_peak_memory_mb())
        self._sent += 1

    def rates(self) -> Figures:
        """Return rows per second, and rows per CPU second."""
        spent = [
            [self._each / (end - begin) for begin, end in pairwise(times)]
            for times in zip(*self.tenths, strict=True)
        ]
        return dict(zip(("rows_per_s", "rows_per_cpu_s"), map(statistics.median, spent), strict=True))

    async def close(self) -> None:
        if self._inner is not None:
            await self._inner.close()


# --- The collector's process ------------------------------------------------------------------------------------


async def _collect(folder: Path, rows: int, repeats: int, agent_url: str) -> Figures:
    host, _, port = agent_url.removeprefix("http://").partition(":")
    block = {"entrypoint": "app.py", "host": host or "127.0.0.1", "port": int(port or 1)}
    stub = StubAgent(HttpTransport() if agent_url else None, rows)
    gym = DiscoveredGym({_AGENT: {"responses_api_agents": {"stub": block}}}, transport=stub)
    settings = CollectSettings(
        datasets=(DatasetFile(_dataset(folder, rows // repeats), repeats, _AGENT),),
        output=folder / _OUTPUT,
        existing=Existing.RESUME,
        limits=RunLimits(in_parallel=IN_PARALLEL),
        environment_metrics_max_rows=0,
    )
    began, cpu = time.perf_counter(), time.process_time()
    summary = await collect(settings, gym.caller(), gym)
    seconds = time.perf_counter() - began
    await stub.close()
    if summary.exit_code:
        raise RuntimeError(f"the collection ended with {summary.to_json()}")
    figures = {
        "until_first_rollout_s": stub.first_s - began,
        "seconds": seconds,
        "cpu_s": time.process_time() - cpu,
        "peak_memory_mb": _peak_memory_mb(),
    }
    if len(stub.tenths) < _TENTHS:
        return figures
    return {
        **stub.rates(),
        "cpu_ms_a_row": 1e3 * figures["cpu_s"] / rows,
        "collecting_memory_mb": stub.peaks_mb[-1],
        "memory_growth_mb": figures["peak_memory_mb"] - stub.peaks_mb[0],
        **figures,
    }


def _dataset(folder: Path, tasks: int) -> Path:
    path = folder / "tasks.jsonl"
    if not path.exists():
        with path.open("wb") as file:
            for number in range(tasks):
                file.write(orjson.dumps({"responses_create_params": _PARAMS, "number": number}) + b"\n")
    return path


def _peak_memory_mb() -> float:
    """Return the peak resident memory of this program in MB. (`getrusage` would include its parent's.)"""
    status = Path("/proc/self/status")
    if not status.exists():
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS reports bytes
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    _folder, _rows, _repeats, _url = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as _runner:
        os.write(1, orjson.dumps(_runner.run(_collect(Path(_folder), int(_rows), int(_repeats), _url))))
