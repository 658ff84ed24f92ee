"""The ecosystem's keys of a collection: routes of rows, order of rollouts, budgets, and rollouts without a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request

from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.transport import InMemoryTransport
from tests.rollouts.doubles import Agents, always, failure, read_rows, task_row


def agent_on(port: int) -> dict[str, Any]:
    reference = {"type": "resources_servers", "name": "math"}
    return {
        "responses_api_agents": {"agent": {"host": "127.0.0.1", "port": port, "resources_server": reference}}
    }


GYM = DiscoveredGym(
    {
        "first": agent_on(1),
        "second": agent_on(1),
        "math": {"resources_servers": {"math": {"host": "127.0.0.1", "port": 2}}},
    },
    token="the-token",
)


class Servers:
    """Both agents of `GYM`, and their environment."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        agent = FastAPI()
        agent.post("/run")(self.run)
        self.transport = InMemoryTransport({"http://127.0.0.1:1": agent, "http://127.0.0.1:2": FastAPI()})

    async def run(self, request: Request) -> dict[str, Any]:
        row = await request.json()
        self.rows.append(row)
        return {**row, "response": {"output": []}, "reward": 1.0}


async def run(
    folder: Path, rows: list[dict[str, Any]], agents: Agents | None = None, **options: Any
) -> tuple[CollectSummary, Servers]:
    dataset = folder / "tasks.jsonl"
    dataset.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    settings = CollectSettings(datasets=(DatasetFile(dataset),), output=folder / "out.jsonl", **options)
    servers = Servers()
    return await collect(settings, GYM.caller(servers.transport), GYM, attempter=agents), servers


def routes(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return sorted((row["_ng_task_index"], row["_ng_rollout_index"], row["agent_ref"]["name"]) for row in rows)


async def test_rows_are_routed_by_agent_map_and_repeated_by_agent(tmp_path: Path) -> None:
    rows = [task_row(0, agent="gone"), task_row(1, agent="second"), task_row(2, agent=None)]
    options: dict[str, Any] = {
        "agent_map": {"gone": "second", "_default": "first"},
        "repeats_by_agent": {"second": 2, "first": 1},
    }
    summary, servers = await run(tmp_path, rows, **options)
    assert summary.exit_code == 0
    assert routes(servers.rows) == [(0, 0, "second"), (0, 1, "second"), (1, 0, "first"), (2, 0, "first")]


async def test_a_row_of_a_task_source_is_attempted_by_each_agent_of_fan_out(tmp_path: Path) -> None:
    rows = [task_row(0, agent=None, task_source="math")]
    summary, servers = await run(
        tmp_path, rows, fan_out={"math": ["first", "second"]}, agent_map={"math": "first"}
    )
    assert routes(servers.rows) == [(0, 0, "first"), (0, 1, "second")]
    assert [agent.agent for agent in summary.agents] == ["first", "second"]
    assert len(read_rows(tmp_path / "out_materialized_inputs.jsonl")) == 2


async def test_interleaved_runs_resume_as_others_do(tmp_path: Path) -> None:
    rows = [task_row(number, agent="first") for number in range(3)]
    options: dict[str, Any] = {"repeats_by_agent": {"first": 2}, "interleave_repeats": True}
    first, _ = await run(tmp_path, rows, Agents({1: always(failure())}), **options)
    assert first.exit_code == 3
    second, servers = await run(
        tmp_path, rows, existing=Existing.RESUME, dispatch_longest_first=True, **options
    )
    assert second.exit_code == 0
    assert routes(servers.rows) == [(1, 0, "first"), (1, 1, "first")]
    inputs = read_rows(tmp_path / "out_materialized_inputs.jsonl")
    assert routes(inputs) == [(task, repeat, "first") for task in range(3) for repeat in range(2)]


async def test_a_spent_budget_starts_nothing_and_a_resume_starts_the_rest(tmp_path: Path) -> None:
    rows = [task_row(number, agent="first") for number in range(3)]
    first, servers = await run(tmp_path, rows, dispatch_budget_s=0.0, drain_margin_s=1.0)
    assert (first.exit_code, servers.rows) == (3, [])
    assert any("dispatch_budget_s" in note for note in first.notes)
    second, servers = await run(tmp_path, rows, existing=Existing.RESUME)
    assert (second.exit_code, len(servers.rows)) == (0, 3)


@pytest.mark.parametrize(("require_complete", "exit_code"), [(False, 3), (True, 1)])
async def test_failures_and_missing_rollouts_count_as_zero_in_metrics_only(
    tmp_path: Path, require_complete: bool, exit_code: int
) -> None:
    rows = [task_row(number, agent="first") for number in range(4)]
    summary, _ = await run(
        tmp_path,
        rows,
        Agents({0: always(failure())}),
        count_failure_classes_as_zero=["engine:engine_down"],
        require_complete=require_complete,
    )
    assert summary.exit_code == exit_code
    assert summary.agents[0].mean_reward == 0.75
    assert len(read_rows(tmp_path / "out.jsonl")) == 3
    (metrics,) = orjson.loads((tmp_path / "out_aggregate_metrics.json").read_bytes())
    assert metrics["agent_metrics"]["count/imputed"] == 1


async def test_missing_rollouts_count_as_zero_too(tmp_path: Path) -> None:
    rows = [task_row(number, agent="first") for number in range(4)]
    summary, _ = await run(
        tmp_path, rows, dispatch_budget_s=0.0, drain_margin_s=1.0, count_missing_rollouts_as_zero=True
    )
    assert summary.agents[0].mean_reward == 0.0
    assert read_rows(tmp_path / "out.jsonl") == []
