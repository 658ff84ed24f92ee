"""A run as a process of its own, to be killed: `python killable_run.py <folder> <existing> <packing>`.

Its agent is in memory and takes a millisecond or two, so that a kill meets rollouts in flight and rows being written.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AttemptResult
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.stopping import Stop, stop_on_signals
from nemo_gym.transport import Caller, Directory, InMemoryTransport
from tests.rollouts.doubles import AGENT, scored


class BusyAgent:
    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        await asyncio.sleep(0.001 + (task.identity.task % 7) / 5000)
        return scored(task, task.identity.task % 2, padding="x" * (task.identity.task % 5000))


async def well(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


async def main(folder: Path, existing: Existing, packing: str) -> int:
    settings = CollectSettings(
        datasets=(DatasetFile(folder / "tasks.jsonl", num_repeats=2),),
        output=folder / f"out.jsonl{packing}",
        existing=existing,
        limits=RunLimits(in_parallel=8, drain_s=2.0),
        environment_metrics_max_rows=0,
    )
    gym = DiscoveredGym({AGENT: {"responses_api_agents": {"simple": {"host": "agent", "port": 1}}}})
    caller = Caller(Directory({AGENT: ["http://agent"]}), InMemoryTransport({"http://agent": well}))
    stop = Stop()
    with stop_on_signals(stop):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        summary = await collect(settings, caller, gym, stop=stop, attempter=BusyAgent())
    return summary.exit_code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), Existing[sys.argv[2]], sys.argv[3])))
