"""A collection from settings to summary, with servers that are ASGI apps in memory."""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request, Response

from nemo_gym.clock import wall_clock
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import ConfigError, EngineError
from nemo_gym.names import NODES_FILE, TASKS_ROUTE
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.output import disk as disks
from nemo_gym.rollouts.output.disk import Disk
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.output.materialized import ROWS_A_WRITE
from nemo_gym.rollouts.plan.compression import build_journal_path
from nemo_gym.rollouts.plan.dataset import DatasetFile, read_lines
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AttemptResult, Scored
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.control import ServeControl
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.stopping import Stop
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.version import ROW_VERSION
from nemo_gym.transport import InMemoryTransport
from tests.rollouts.doubles import (
    AGENT,
    Agents,
    Behaviour,
    always,
    failure,
    identities,
    read_rows,
    scored,
    task_row,
    write_dataset,
)

GYM = DiscoveredGym(
    {
        AGENT: {
            "responses_api_agents": {
                "simple": {
                    "host": "127.0.0.1",
                    "port": 1,
                    "model_server": {"type": "responses_api_models", "name": "policy_model"},
                }
            }
        },
        "policy_model": {
            "responses_api_models": {"vllm": {"host": "127.0.0.1", "port": 2, "model": "small"}}
        },
    },
    token="the-token",
)


class Servers:
    """The agent and the model server of `GYM`."""

    def __init__(self, *, preflight: Response | None = None) -> None:
        self.runs: list[dict[str, Any]] = []
        agent, model = FastAPI(), FastAPI()
        agent.post("/run")(self.run)
        model.get("/preflight")(lambda: preflight or {"ok": True})
        self.transport = InMemoryTransport({"http://127.0.0.1:1": agent, "http://127.0.0.1:2": model})

    async def run(self, request: Request) -> dict[str, Any]:
        row: dict[str, Any] = await request.json()
        self.runs.append(row)
        return {
            **row,
            "response": {"output": []},
            "reward": float(row["answer"] % 2),
            "_ng_outcome": "completed",
        }


def settings_of(folder: Path, *, repeats: int = 1, **options: Any) -> CollectSettings:
    datasets = options.pop("datasets", (DatasetFile(folder / "tasks.jsonl", num_repeats=repeats),))
    output = options.pop("output", out(folder))
    return CollectSettings(datasets=datasets, output=output, **options)


async def run(
    folder: Path,
    *,
    agents: Agents | None = None,
    servers: Servers | None = None,
    gym: DiscoveredGym = GYM,
    stop: Stop | None = None,
    serve: ServeControl | None = None,
    **options: Any,
) -> CollectSummary:
    caller = gym.caller((servers or Servers()).transport)
    settings = settings_of(folder, **options)
    return await collect(settings, caller, gym, stop=stop, attempter=agents, serve=serve)


def out(folder: Path, ending: str = ".jsonl") -> Path:
    return folder / "results" / f"out{ending}"


async def test_the_summary_repeats_the_notes_on_the_input(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 1)
    summary = await run(tmp_path, input_notes=["1 of 2 tasks is left out"])
    assert "1 of 2 tasks is left out" in summary.notes
    assert "1 of 2 tasks is left out" in summary.to_json()["notes"]


async def test_a_run_leaves_rows_inputs_metrics_and_a_manifest(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 4)
    servers = Servers()
    summary = await run(tmp_path, servers=servers, repeats=2, gym=replace(GYM, logs=tmp_path / "logs"))
    rows = sorted(read_rows(out(tmp_path)), key=lambda row: (row["_ng_task_index"], row["_ng_rollout_index"]))
    assert identities(rows) == [(task, repeat) for task in range(4) for repeat in range(2)]
    assert rows[2] == {
        "_ng_task_index": 1,
        "_ng_rollout_index": 0,
        "_ng_row_version": ROW_VERSION,
        "_ng_attempt_index": 0,
        **task_row(1),
        "response": {"output": []},
        "reward": 1.0,
        "_ng_outcome": "completed",
    }
    assert len(read_rows(out(tmp_path, "_materialized_inputs.jsonl"))) == 8
    assert read_rows(out(tmp_path, "_failures.jsonl")) == []
    (metrics,) = orjson.loads(out(tmp_path, "_aggregate_metrics.json").read_bytes())
    assert metrics["agent_ref"]["name"] == AGENT
    assert metrics["agent_metrics"]["mean/reward"] == 0.5
    manifest = orjson.loads(out(tmp_path, "_run.json").read_bytes())
    (start,) = manifest["starts"]
    assert (start["end"], start["planned"], start["logs"]) == ("complete", 8, "../logs")
    assert manifest["identity"]["config"]["policy_model"] == {
        "responses_api_models": {"vllm": {"model": "small"}}
    }
    assert (summary.exit_code, summary.end) == (0, "complete")
    (agent,) = summary.agents
    assert (agent.tasks, agent.rollouts, agent.completed, agent.failed) == (4, 8, 8, 0)
    assert (agent.mean_reward, agent.pass_at[1], agent.coverage) == (0.5, 50.0, 100.0)


async def test_the_nodes_of_the_gym_are_kept_with_the_run(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 1)
    logs = tmp_path / "logs"
    logs.mkdir()
    events = [{"at": 1.0, "kind": "up"}, {"at": 4e9, "kind": "lost"}]
    (logs / NODES_FILE).write_bytes(orjson.dumps({"nodes": [{"name": "a"}], "events": events}))
    await run(tmp_path, gym=replace(GYM, logs=logs))
    kept = orjson.loads(out(tmp_path, "_nodes.json").read_bytes())
    assert kept == {"nodes": [{"name": "a"}], "events": events[1:]}


async def test_what_failed_is_attempted_again_by_a_resume_and_counted_once(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 10)
    first = await run(tmp_path, agents=Agents({3: always(failure()), 5: always(failure())}))
    assert (first.exit_code, first.end, first.agents[0].failed) == (3, "partial", 2)
    agents = Agents({5: always(failure("again"))})
    second = await run(tmp_path, agents=agents, existing=Existing.RESUME)
    assert {identity.task for identity in agents.attempts} == {3, 5}
    assert (second.counters.finished_before, second.counters.completed, second.counters.failed) == (8, 1, 1)
    assert second.agents[0].completed == 9
    assert second.agents[0].failed == 1
    (failed,) = read_rows(out(tmp_path, "_failures.jsonl"))
    assert failed["_ng_task_index"] == 5
    assert abs(failed["_ng_failed_at"] - wall_clock()) < 3600
    third = await run(tmp_path, agents=Agents(), existing=Existing.RESUME)
    assert (third.exit_code, third.agents[0].completed, third.agents[0].failed) == (0, 10, 0)
    assert sorted(identities(read_rows(out(tmp_path)))) == [(task, 0) for task in range(10)]


@pytest.mark.parametrize("packing", [".gz", ".zst"])
async def test_a_compressed_run_is_the_same_run(tmp_path: Path, packing: str) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 10)
    agents, output = Agents({3: always(failure())}), out(tmp_path, f".jsonl{packing}")
    first = await run(tmp_path, agents=agents, output=output)
    assert [path.name for path in first.files.present()] == [
        f"out.jsonl{packing}", f"out_failures.jsonl{packing}", "out_run.json", "out_aggregate_metrics.json",
        f"out_materialized_inputs.jsonl{packing}",
    ]  # fmt: skip
    servers = Servers()
    second = await run(tmp_path, servers=servers, output=output, existing=Existing.RESUME)
    assert [row["_ng_task_index"] for row in servers.runs] == [3]
    assert (second.counters.finished_before, second.agents[0].completed, second.exit_code) == (9, 10, 0)
    rows = [orjson.loads(line.content) for line in read_lines(output)]
    assert sorted(identities(rows)) == [(task, 0) for task in range(10)]
    (earlier,) = read_lines(out(tmp_path, f"_failures.1.jsonl{packing}"))
    assert orjson.loads(earlier.content)["_ng_task_index"] == 3
    stored = StoredRun(output)
    assert stored.scored.row(RolloutId(3, 0))["reward"] == 1.0
    stored.close()


async def test_a_run_in_another_form_is_neither_mixed_with_nor_overlooked(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 2)
    await run(tmp_path)
    packed = out(tmp_path, ".jsonl.zst")
    with pytest.raises(ConfigError, match="belongs to an earlier run"):
        await run(tmp_path, output=packed)
    with pytest.raises(ConfigError, match=r"the run to resume is in .*out\.jsonl, not in"):
        await run(tmp_path, output=packed, existing=Existing.RESUME)
    await run(tmp_path, output=packed, existing=Existing.MOVE_ASIDE)
    assert len(read_rows(out(tmp_path, ".1.jsonl"))) == 2
    assert not out(tmp_path).exists()


async def test_a_finished_run_resumed_does_nothing_and_says_the_same(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 5)
    first = await run(tmp_path)
    rows = out(tmp_path).read_bytes()
    servers = Servers()
    second = await run(tmp_path, servers=servers, existing=Existing.RESUME)
    assert servers.runs == []
    assert out(tmp_path).read_bytes() == rows
    assert second.agents == first.agents
    assert second.exit_code == 0


async def test_more_repeats_are_added_to_a_run(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 3)
    await run(tmp_path, repeats=1)
    servers = Servers()
    summary = await run(tmp_path, servers=servers, repeats=3, existing=Existing.RESUME)
    assert len(servers.runs) == 6
    assert summary.agents[0].completed == 9
    inputs = identities(read_rows(out(tmp_path, "_materialized_inputs.jsonl")))
    assert inputs == [(task, repeat) for task in range(3) for repeat in range(3)]


async def test_another_dataset_is_not_mixed_into_a_run(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 3)
    await run(tmp_path)
    write_dataset(tmp_path / "tasks.jsonl", 4)
    with pytest.raises(ConfigError, match=r"datasets\.0\.rows: 3 -> 4"):
        await run(tmp_path, existing=Existing.RESUME)
    summary = await run(tmp_path, existing=Existing.RESUME, allow_identity_change=True)
    assert (summary.exit_code, summary.counters.completed) == (0, 1)
    write_dataset(tmp_path / "tasks.jsonl", 2)
    shrunk = await run(tmp_path, existing=Existing.RESUME, allow_identity_change=True)
    assert (shrunk.exit_code, shrunk.counters.finished_before, shrunk.agents[0].completed) == (0, 2, 2)
    assert "2 of the run, 0 new, 2 of the run are not in the input" in shrunk.notes[0]
    assert "out_unplanned_1.jsonl" in shrunk.notes[1]
    assert identities(read_rows(out(tmp_path, "_unplanned_1.jsonl"))) == [(2, 0), (3, 0)]
    assert identities(read_rows(out(tmp_path))) == [(0, 0), (1, 0)]


def write_tasks(folder: Path, *numbers: int) -> None:
    rows = b"".join(orjson.dumps(task_row(number)) + b"\n" for number in numbers)
    (folder / "tasks.jsonl").write_bytes(rows)


def answers_by_task(path: Path) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for row in read_rows(path):
        found.setdefault(row["_ng_task_index"], set()).add(row["answer"])
    return found


ALLOWED: list[dict[str, Any]] = [{"add_tasks": True}, {"allow_identity_change": True}]


@pytest.mark.parametrize("allowed", ALLOWED)
async def test_changed_tasks_are_matched_by_content(tmp_path: Path, allowed: dict[str, Any]) -> None:
    write_tasks(tmp_path, 10, 11, 12, 13)
    await run(tmp_path, repeats=2)
    kept = out(tmp_path).read_bytes()
    write_tasks(tmp_path, 20, 13, 10, 11, 12)
    with pytest.raises(ConfigError, match="--add-tasks"):
        await run(tmp_path, repeats=2, existing=Existing.RESUME)
    summary = await run(tmp_path, repeats=2, existing=Existing.RESUME, **allowed)
    assert (summary.counters.finished_before, summary.counters.completed, summary.exit_code) == (8, 2, 0)
    assert "4 of the run, 1 new" in summary.notes[0]
    assert out(tmp_path).read_bytes().startswith(kept)
    expected = {0: {10}, 1: {11}, 2: {12}, 3: {13}, 4: {20}}
    assert answers_by_task(out(tmp_path)) == expected
    assert answers_by_task(out(tmp_path, "_materialized_inputs.jsonl")) == expected
    again = await run(tmp_path, repeats=3, existing=Existing.RESUME)
    assert (again.counters.completed, again.agents[0].coverage) == (5, 100.0)
    assert answers_by_task(out(tmp_path)) == expected
    assert answers_by_task(out(tmp_path, "_materialized_inputs.jsonl")) == expected
    inputs = identities(read_rows(out(tmp_path, "_materialized_inputs.jsonl")))
    assert sorted(inputs) == [(task, repeat) for task in range(5) for repeat in range(3)]
    assert again.agents[0].tasks == 5
    assert again.agents[0].pass_at[3] == 100 * 2 / 5  # of the doubles, odd answers are right


async def test_rows_of_removed_tasks_are_set_aside_and_count_nowhere(tmp_path: Path) -> None:
    write_tasks(tmp_path, 1, 2, 3)
    await run(tmp_path)
    write_tasks(tmp_path, 3, 4)
    summary = await run(tmp_path, existing=Existing.RESUME, add_tasks=True)
    assert (summary.agents[0].tasks, summary.agents[0].completed, summary.agents[0].mean_reward) == (
        2,
        2,
        0.5,
    )
    assert "1 of the run, 1 new, 2 of the run are not in the input any more" in summary.notes[0]
    assert "out_unplanned_1.jsonl" in summary.notes[1]
    assert answers_by_task(out(tmp_path)) == {2: {3}, 3: {4}}
    assert answers_by_task(out(tmp_path, "_unplanned_1.jsonl")) == {0: {1}, 1: {2}}


@pytest.mark.parametrize("allowed", ALLOWED)
async def test_another_dataset_altogether_is_refused(tmp_path: Path, allowed: dict[str, Any]) -> None:
    write_tasks(tmp_path, 1, 2)
    await run(tmp_path)
    before = {path.name: path.read_bytes() for path in out(tmp_path).parent.iterdir()}
    write_tasks(tmp_path, 3, 4)
    with pytest.raises(ConfigError, match="has no task of the run"):
        await run(tmp_path, existing=Existing.RESUME, **allowed)
    assert {path.name: path.read_bytes() for path in out(tmp_path).parent.iterdir()} == before


async def test_rows_without_a_manifest_are_matched_by_content_too(tmp_path: Path) -> None:
    write_tasks(tmp_path, 1, 2)
    await run(tmp_path)
    out(tmp_path, "_run.json").unlink()
    write_tasks(tmp_path, 2, 1)
    summary = await run(tmp_path, existing=Existing.RESUME, allow_identity_change=True)
    assert (summary.counters.finished_before, summary.counters.completed) == (2, 0)
    assert answers_by_task(out(tmp_path, "_materialized_inputs.jsonl")) == {0: {1}, 1: {2}}


async def test_a_run_without_its_task_rows_gets_more_tasks(tmp_path: Path) -> None:
    write_tasks(tmp_path, 1, 2)
    await run(tmp_path, write_materialized_inputs=False)
    write_tasks(tmp_path, 3, 2, 1)
    summary = await run(tmp_path, existing=Existing.RESUME, add_tasks=True)
    assert (summary.counters.finished_before, summary.counters.completed) == (2, 1)
    expected = {0: {1}, 1: {2}, 2: {3}}
    assert answers_by_task(out(tmp_path)) == expected
    assert answers_by_task(out(tmp_path, "_materialized_inputs.jsonl")) == expected


@pytest.mark.parametrize("packing", [".gz", ".zst"])
async def test_a_compressed_run_gets_more_tasks(tmp_path: Path, packing: str) -> None:
    output = out(tmp_path, f".jsonl{packing}")
    write_tasks(tmp_path, 1, 2)
    await run(tmp_path, output=output)
    write_tasks(tmp_path, 3, 2, 1)
    await run(tmp_path, output=output, existing=Existing.RESUME, add_tasks=True)
    rows = [orjson.loads(line.content) for line in read_lines(output)]
    assert {row["_ng_task_index"]: row["answer"] for row in rows} == {0: 1, 1: 2, 2: 3}


async def test_a_larger_limit_and_another_file_add_tasks(tmp_path: Path) -> None:
    write_tasks(tmp_path, 1, 2, 3, 4)
    await run(tmp_path, limit=2)
    with pytest.raises(ConfigError, match="--add-tasks"):
        await run(tmp_path, limit=3, existing=Existing.RESUME)
    summary = await run(tmp_path, limit=3, existing=Existing.RESUME, add_tasks=True)
    assert (summary.counters.finished_before, summary.counters.completed) == (2, 1)
    assert "tasks" not in orjson.loads(out(tmp_path, "_run.json").read_bytes())


def _unlink(path: Path) -> None:
    path.unlink()


def _replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _remove_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
@pytest.mark.parametrize("harm", [_unlink, _replace, _truncate, _remove_folder])
@pytest.mark.parametrize("at", [2, 5])
async def test_a_changed_output_ends_the_run_with_exit_code_1(
    tmp_path: Path, ending: str, harm: Callable[[Path], None], at: int
) -> None:
    """While the run goes on (task 2), and between the last row and the end (task 5)."""
    write_dataset(tmp_path / "tasks.jsonl", 6)
    output = out(tmp_path, ending)
    rows = build_journal_path(output) if ending == ".jsonl.gz" else output

    class Harming(RunCounters):
        def note_scored(self, agent: str, scored: Scored) -> None:
            super().note_scored(agent, scored)
            if self.scored == at + 1:
                harm(rows)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("nemo_gym.rollouts.run.execution.RunCounters", Harming)
        summary = await run(tmp_path, output=output, limits=RunLimits(in_parallel=1))
    assert summary.exit_code == 1
    assert summary.stop is not None
    assert str(rows if harm is not _remove_folder else rows.parent) in summary.stop.message
    assert "by another program during the run" in summary.stop.message
    assert "+resume_from_cache=true" in (summary.stop.remedy or "")
    resumed = await run(tmp_path, output=output, existing=Existing.RESUME)
    assert resumed.exit_code == 0
    assert len(list(read_lines(output))) == 6


@pytest.mark.parametrize("companion", ["_failures.jsonl", "_materialized_inputs.jsonl"])
async def test_a_deleted_companion_ends_the_run_with_exit_code_1(tmp_path: Path, companion: str) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 3)

    async def delete(task: PlannedAttempt) -> AttemptResult:
        out(tmp_path, companion).unlink()
        return scored(task)

    summary = await run(tmp_path, agents=Agents({2: delete}))
    assert summary.exit_code == 1
    assert summary.stop is not None
    assert f"out{companion} was deleted" in summary.stop.message


async def test_a_stored_row_outside_the_plan_is_set_aside_by_a_resume(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 2)
    await run(tmp_path)
    foreign = RolloutId(7, 0).head() + b'"reward":9.0,"agent_ref":{"name":"simple_agent"}}'
    with out(tmp_path).open("ab") as file:
        file.write(foreign + b"\n")
    summary = await run(tmp_path, existing=Existing.RESUME)
    assert (summary.exit_code, summary.agents[0].mean_reward) == (0, 1.0 / 2)
    assert out(tmp_path, "_unplanned_1.jsonl").read_bytes() == foreign + b"\n"
    assert sum("out_unplanned_1.jsonl" in note for note in summary.notes) == 1


def test_settings_refuse_an_output_that_is_an_input(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    write_dataset(tasks, 1)
    (tmp_path / "link.jsonl").symlink_to(tasks)
    (tmp_path / "hard.jsonl").hardlink_to(tasks)
    (tmp_path / "linked").symlink_to(tmp_path)
    (tmp_path / "stem_failures.jsonl").symlink_to(tasks)
    for name in ("tasks.jsonl", "tasks.jsonl.gz", "tasks.jsonl.zst", "link.jsonl", "hard.jsonl.gz", "stem.jsonl",
                 "linked/tasks.jsonl", f"../{tmp_path.name}/tasks.jsonl"):  # fmt: skip
        with pytest.raises(ConfigError, match="would overwrite its input"):
            settings_of(tmp_path, output=tmp_path / name, existing=Existing.MOVE_ASIDE)
    journal = tmp_path / "packed.jsonl.gz.journal"
    write_dataset(journal, 1)
    with pytest.raises(ConfigError, match="would overwrite its input"):
        settings_of(tmp_path, output=tmp_path / "packed.jsonl.gz", datasets=(DatasetFile(journal),))


async def test_a_dataset_of_malformed_rows_alone_is_refused_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("{}\n{}\n")
    with pytest.raises(ConfigError, match="2 rows are malformed"):
        await run(tmp_path, skip_invalid_rows=True)


async def test_a_fresh_run_refuses_the_files_of_an_old_one_before_reading_the_dataset(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 3)
    await run(tmp_path)
    (tmp_path / "tasks.jsonl").unlink()
    with pytest.raises(ConfigError, match="belongs to an earlier run"):
        await run(tmp_path)


async def test_malformed_rows_are_refused_or_left_out_and_counted(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "tasks.jsonl", 2)
    path.write_bytes(path.read_bytes() + b'{"broken\n' + orjson.dumps(task_row(3)))
    with pytest.raises(ConfigError, match=r"tasks\.jsonl:3"):
        await run(tmp_path)
    assert not out(tmp_path).exists()
    summary = await run(tmp_path, skip_invalid_rows=True)
    assert (summary.exit_code, summary.invalid_rows) == (0, 1)
    assert sorted(identities(read_rows(out(tmp_path)))) == [(0, 0), (1, 0), (3, 0)]


async def test_rows_that_their_environment_cannot_read_are_refused_or_left_out_and_counted(
    tmp_path: Path,
) -> None:
    async def check(request: Request) -> dict[str, Any]:
        rows = (await request.json())["rows"]
        odd = [place for place, row in enumerate(rows) if row["answer"] % 2]
        return {
            "faults": [{"row": place, "key": "answer", "message": "is odd", "value": "1"} for place in odd]
        }

    shop, servers = FastAPI(), Servers()
    shop.post(TASKS_ROUTE)(check)
    servers.transport.apps["http://127.0.0.1:3"] = shop
    block = GYM.config[AGENT]["responses_api_agents"]["simple"]
    with_shop = {"simple_agent": {**block, "resources_server": {"type": "resources_servers", "name": "shop"}}}
    parts = {
        AGENT: {"responses_api_agents": with_shop},
        "shop": {"resources_servers": {"shop": {"host": "127.0.0.1", "port": 3}}},
    }
    gym = replace(GYM, config={**GYM.config, **parts})
    write_dataset(tmp_path / "tasks.jsonl", 4)
    with pytest.raises(ConfigErrors, match="is odd"):
        await run(tmp_path, servers=servers, gym=gym)
    assert servers.runs == []
    summary = await run(tmp_path, servers=servers, gym=gym, repeats=2, skip_invalid_rows=True)
    assert (summary.exit_code, summary.invalid_rows) == (0, 2)
    rows = sorted(identities(read_rows(out(tmp_path))))
    assert rows == [(0, 0), (0, 1), (2, 0), (2, 1)]
    assert len(servers.runs) == 4

    (tmp_path / "tasks.jsonl").write_bytes(orjson.dumps(task_row(1)) + b"\n")
    with pytest.raises(ConfigError, match="1 row is malformed") as caught:
        await run(tmp_path, output=tmp_path / "other.jsonl", servers=servers, gym=gym, skip_invalid_rows=True)
    assert "which `shop` cannot read: is odd" in str(caught.value)


async def test_an_agent_that_does_not_exist_is_found_before_anything_runs(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 2, agent="simple_agnet")
    with pytest.raises(ConfigErrors, match="Did you mean 'simple_agent'"):
        await run(tmp_path)
    assert not out(tmp_path).exists()


async def test_an_engine_out_of_reach_is_found_before_anything_runs(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 2)
    cause = EngineError("http://engine/v1 refuses the connection", code="connect_refused").failure
    servers = Servers(preflight=Response(orjson.dumps(cause.to_wire()), 502))
    with pytest.raises(ConfigErrors, match="http://engine/v1"):
        await run(tmp_path, servers=servers)
    assert servers.runs == []
    assert not out(tmp_path).exists()


async def test_a_systemic_failure_ends_the_run_with_its_cause_and_exit_code_1(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 200)
    everywhere: dict[int, Behaviour] = {task: always(failure("refused")) for task in range(200)}
    summary = await run(tmp_path, agents=Agents(everywhere), limits=RunLimits(in_parallel=4))
    assert summary.exit_code == 1
    assert summary.stop is not None
    assert summary.stop.message.startswith("the engine says refused")
    assert summary.agents[0].missing > 150
    manifest = orjson.loads(out(tmp_path, "_run.json").read_bytes())
    assert manifest["starts"][0]["end"] == "systemic_failure"


async def test_an_interrupted_run_is_partial_and_resumable(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 20)
    stop = Stop()

    async def interrupt(task: PlannedAttempt) -> AttemptResult:
        stop.interrupt()
        return scored(task)

    summary = await run(tmp_path, agents=Agents({7: interrupt}), stop=stop, limits=RunLimits(in_parallel=1))
    assert (summary.exit_code, summary.end, summary.counters.completed) == (3, "interrupted", 8)
    resumed = await run(tmp_path, agents=Agents(), existing=Existing.RESUME)
    assert (resumed.exit_code, resumed.counters.completed) == (0, 12)


async def test_rows_take_compressed_files_agents_overrides_and_seeds(tmp_path: Path) -> None:
    rows = orjson.dumps(task_row(1, agent=None)) + b"\n"
    (tmp_path / "tasks.jsonl.gz").write_bytes(gzip.compress(rows))
    servers = Servers()
    await run(
        tmp_path,
        servers=servers,
        datasets=(DatasetFile(tmp_path / "tasks.jsonl.gz", num_repeats=2, agent_name=AGENT),),
        responses_create_params={"temperature": 0.7},
        num_repeats_add_seed=True,
    )
    params = [row["responses_create_params"] for row in servers.runs]
    assert [each["temperature"] for each in params] == [0.7, 0.7]
    assert sorted(each["metadata"]["extra_body"] for each in params) == ['{"seed":0}', '{"seed":1}']


async def test_the_planned_rows_need_not_be_kept(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 2)
    await run(tmp_path, write_materialized_inputs=False)
    assert not out(tmp_path, "_materialized_inputs.jsonl").exists()


async def test_a_run_that_breaks_says_so_in_its_manifest_and_can_be_resumed(tmp_path: Path) -> None:
    tasks = ROWS_A_WRITE
    files = [write_dataset(tmp_path / name, tasks) for name in ("a.jsonl", "b.jsonl")]
    datasets = tuple(DatasetFile(path) for path in files)

    async def remove_the_second_dataset(task: PlannedAttempt) -> AttemptResult:
        files[1].unlink()
        return scored(task)

    agents = Agents({0: remove_the_second_dataset})
    broken = await run(tmp_path, agents=agents, datasets=datasets, limits=RunLimits(in_parallel=1))
    assert (broken.exit_code, broken.end, broken.agents[0].completed) == (1, "broken", tasks)
    (start,) = orjson.loads(out(tmp_path, "_run.json").read_bytes())["starts"]
    assert start["end"] == "broken"
    assert "b.jsonl does not exist" in start["stop"]["message"]
    write_dataset(files[1], tasks)
    summary = await run(tmp_path, datasets=datasets, existing=Existing.RESUME)
    assert (summary.exit_code, summary.counters.finished_before) == (0, tasks)


async def memory_at_the_end(folder: Path, rows: int) -> int:
    """Bytes that are held when the last of `rows` rollouts is in flight."""
    write_dataset(folder / "tasks.jsonl", rows)
    held = 0

    async def weigh(task: PlannedAttempt) -> AttemptResult:
        nonlocal held
        agents.attempts.clear()
        held = tracemalloc.get_traced_memory()[0]
        return scored(task)

    agents = Agents({rows - 1: weigh})
    tracemalloc.start()
    try:
        await run(folder, agents=agents, limits=RunLimits(in_parallel=32), existing=Existing.MOVE_ASIDE)
    finally:
        tracemalloc.stop()
    return held


class FullDisk(Disk):
    """Has no room for one file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._full: set[int] = set()

    def open_to_append(self, path: Path) -> int:
        descriptor = super().open_to_append(path)
        (self._full.add if path.name == self._name else self._full.discard)(descriptor)
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if descriptor in self._full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(descriptor, data)


@pytest.mark.parametrize("name", ["out.jsonl", "out_materialized_inputs.jsonl"])
async def test_a_run_that_fills_the_disk_is_broken_and_can_be_resumed(tmp_path: Path, name: str) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 3)
    with disks.replaced_by(FullDisk(name)):
        broken = await run(tmp_path)
    assert (broken.end, broken.exit_code) == ("broken", 1)
    assert broken.stop is not None
    assert "No space left" in broken.stop.message
    summary = await run(tmp_path, existing=Existing.RESUME)
    assert summary.exit_code == 0
    assert sorted(identities(read_rows(out(tmp_path)))) == [(0, 0), (1, 0), (2, 0)]


async def test_a_run_holds_what_is_in_flight_and_a_few_numbers_for_each_rollout(tmp_path: Path) -> None:
    held = [await memory_at_the_end(tmp_path, rows) for rows in (500, 1_500, 2_500)]
    # The smaller of two steps: a table of the interpreter's own may grow in one of them.
    assert min(held[1] - held[0], held[2] - held[1]) / 1_000 < 160


def test_the_settings_of_a_start_are_plain_data(tmp_path: Path) -> None:
    settings: Mapping[str, Any] = settings_of(tmp_path).to_json()
    assert orjson.loads(orjson.dumps(settings)) == settings


class SetMeanwhile(asyncio.Event):
    """Set when it is asked about for the third time."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = 0

    def is_set(self) -> bool:
        self._asked += 1
        return self._asked >= 3


async def test_metrics_of_a_part_of_the_rows_are_not_written_as_those_of_all(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 5)
    await run(tmp_path)
    written = out(tmp_path, "_aggregate_metrics.json").read_bytes()
    stop = Stop()
    stop.cancelling = SetMeanwhile()
    summary = await run(tmp_path, stop=stop, existing=Existing.RESUME)
    assert out(tmp_path, "_aggregate_metrics.json").read_bytes() == written
    assert "no metrics were computed: the run was interrupted twice" in summary.notes
