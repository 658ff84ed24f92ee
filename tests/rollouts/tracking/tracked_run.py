"""A tracked run of five tasks with an agent in memory, stopped or resumed as a test needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request

from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rollouts.tracking.tracked import collect_tracked
from nemo_gym.transport import InMemoryTransport
from tests.rollouts.doubles import AGENT, write_dataset

TASKS = 5
GYM = DiscoveredGym({AGENT: {"responses_api_agents": {"simple": {"host": "127.0.0.1", "port": 1}}}})


def agent_app() -> FastAPI:
    app = FastAPI()

    @app.post("/run")
    async def run(request: Request) -> dict[str, Any]:
        row: dict[str, Any] = await request.json()
        message = {
            "type": "message",
            "role": "assistant",
            "content": f"answer {row['_ng_task_index']} | a\nb",
        }
        reward = float(row["_ng_task_index"] % 2)
        return {**row, "response": {"output": [message]}, "reward": reward, "_ng_outcome": "completed"}

    return app


async def collect_with(folder: Path, tracker: str | list[str], **options: Any) -> CollectSummary:
    """Collect five tasks, or those that a run in `folder` lacks."""
    dataset = write_dataset(folder / "tasks.jsonl", TASKS)
    settings = CollectSettings(
        datasets=(DatasetFile(dataset, options.pop("repeats", 1), AGENT),),
        output=folder / "out.jsonl",
        track=tracker,
        environment_metrics_max_rows=0,
        **options,
    )
    transport = InMemoryTransport({"http://127.0.0.1:1": agent_app()})
    return await collect_tracked(settings, GYM.caller(transport), GYM)


async def collect_and_resume(folder: Path, tracker: str) -> list[CollectSummary]:
    """Collect two of five tasks, and then the other three as a resumed run."""
    first = await collect_with(folder, tracker, limit=2)
    rest = await collect_with(folder, tracker, existing=Existing.RESUME, allow_identity_change=True)
    return [first, rest]
