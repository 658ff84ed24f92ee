"""The metrics of a run, agent by agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request, Response

from nemo_gym.json_objects import dump_json
from nemo_gym.metrics import AggregateResult, Planned
from nemo_gym.rollouts.run.answer import AttemptResult, Scored, classify
from nemo_gym.rollouts.run.run_metrics import EnvironmentMetrics, RunMetrics, combine, write_document
from nemo_gym.transport import Caller, Directory, InMemoryTransport, RetryBudget
from tests.rollouts.doubles import failure, planned, scored


def metrics_of(rewards: list[float | None]) -> RunMetrics:
    """A run with a task per reward; None stands for a failure."""
    metrics = RunMetrics()
    for task, reward in enumerate(rewards):
        attempt = planned(task)
        metrics.note(attempt, classify(attempt, failure() if reward is None else scored(attempt, reward)))
    return metrics


def test_a_failure_counts_in_coverage_and_not_in_the_mean() -> None:
    results = metrics_of([1.0, 0.0, None]).results({"simple_agent": Planned(4, 4)})
    metrics = results["simple_agent"]["agent_metrics"]
    assert metrics["mean/reward"] == 0.5
    assert metrics["coverage/reward"] == 50.0
    assert metrics["count/failure/engine:engine_down"] == 1
    assert metrics["count/outcome/missing"] == 1


def test_rows_of_an_earlier_start_count_as_if_they_were_of_this_one(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    lines = []
    for task, reward in enumerate([1.0, 0.0, 1.0]):
        attempt = planned(task, agent="b" if task == 2 else "a")
        row = orjson.loads(attempt.row) | {"reward": reward}
        lines.append(orjson.dumps(row) + b"\n")
    path.write_bytes(b"".join(lines) + b'{"of": "this start"}\n')
    metrics = RunMetrics()
    metrics.note_rows(path, count=len(lines))
    results = metrics.results({})
    assert results["a"]["agent_metrics"]["mean/reward"] == 0.5
    assert results["b"]["agent_metrics"]["count/scored"] == 1


def test_rewards_of_0_and_empty_answers_are_notes(tmp_path: Path) -> None:
    metrics = metrics_of([0.0] * 5)
    assert [note.partition(",")[0].partition(".")[0] for note in metrics.describe_verdicts()][:1] == [
        "`simple_agent`: all 5 rewards are 0"
    ]
    row = {
        **orjson.loads(planned(7).row),
        "reward": 1.0,
        "response": {"output": []},
        "_ng_outcome": "completed",
    }
    path = tmp_path / "out.jsonl"
    path.write_bytes(orjson.dumps(row) + b"\n")
    earlier = RunMetrics()
    earlier.note_rows(path, count=1)
    assert [*earlier.describe_verdicts()] == ["1 of 1 rollouts completed with an empty answer"]


def test_an_agent_without_any_rollout_is_there_all_the_same() -> None:
    results = RunMetrics().results({"a": Planned(3, 6)})
    assert results["a"]["agent_metrics"]["count/outcome/missing"] == 6


def environment(
    status: int, body: bytes, seen: list[dict[str, Any]] | None = None, told: bytes | None = None
) -> Caller:
    """An agent whose `POST /aggregate_metrics` answers `body`, and its `GET` `told`, if it has any."""
    app = FastAPI()
    if told is not None:
        app.get("/aggregate_metrics")(lambda: Response(told))

    @app.post("/aggregate_metrics")
    async def aggregate(request: Request) -> Response:
        if seen is not None:
            seen.append({"token": request.headers.get("x-ng-token"), **await request.json()})
        return Response(body, status)

    directory = Directory({"a": ["http://a"], "b": ["http://a"]})
    return Caller(
        directory, InMemoryTransport({"http://a": app}), budget=RetryBudget(attempts=1), token="the-token"
    )


def results_and_rows(folder: Path) -> tuple[dict[str, AggregateResult], Path]:
    metrics, path, lines = RunMetrics(), folder / "out.jsonl", []
    for task in range(4):
        attempt = planned(task, agent="b" if task == 3 else "a")
        result = classify(attempt, scored(attempt, float(task % 2)))
        assert isinstance(result, Scored)
        metrics.note(attempt, result)
        lines.append(result.line)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return metrics.results({"a": Planned(3, 3), "b": Planned(1, 1)}), path


async def test_an_environments_own_metrics_join_the_standard_ones(tmp_path: Path) -> None:
    own = {
        "agent_metrics": {"accuracy": 0.9, "mean/reward": 7.0, "count/tasks": 99},
        "key_metrics": {"accuracy": 0.9},
        "group_level_metrics": [{"_ng_task_index": 0}],
    }
    seen: list[dict[str, Any]] = []
    results, rows = results_and_rows(tmp_path)
    asking = EnvironmentMetrics(environment(200, orjson.dumps(own), seen), max_rows=100)
    extended = (await asking.extend(results, rows))["a"]
    assert [row["_ng_task_index"] for row in seen[0]["verify_responses"]] == [0, 1, 2]
    assert [row["_ng_task_index"] for row in seen[1]["verify_responses"]] == [3]
    assert seen[0]["token"] == "the-token"
    assert extended["agent_metrics"]["accuracy"] == 0.9
    assert extended["agent_metrics"]["mean/reward"] == 7.0
    assert extended["agent_metrics"]["count/tasks"] == 3
    assert extended["agent_metrics"]["coverage/reward"] == 100.0
    assert extended["key_metrics"] == {"accuracy": 0.9}
    assert extended["group_level_metrics"] == [{"_ng_task_index": 0}]
    assert asking.notes == []


async def test_the_intervals_of_an_environment_do_not_replace_those_that_know_equal_tasks(
    tmp_path: Path,
) -> None:
    own = {
        "agent_metrics": {
            "accuracy": 0.9,
            "std_err/reward": 0.01,
            "ci95_low/reward": 0.49,
            "ci95_high/reward": 0.51,
            "pass@1/reward/std_err_across_tasks": 1.0,
            "pass@1/accuracy/std_err_across_tasks": 1.0,
            "pass@1/accuracy/std_dev_across_runs": 2.0,
        },
        "key_metrics": {"accuracy": 0.9, "std_err/accuracy": 0.01},
    }
    results, rows = results_and_rows(tmp_path)
    reply = environment(200, orjson.dumps(own))
    asking = EnvironmentMetrics(reply, max_rows=100, has_equal_tasks=True)
    extended = (await asking.extend(results, rows))["a"]
    kept = {"accuracy": 0.9, "pass@1/accuracy/std_dev_across_runs": 2.0}
    assert extended["agent_metrics"] == results["a"]["agent_metrics"] | kept
    assert extended["key_metrics"] == {"accuracy": 0.9}


@pytest.mark.parametrize(
    ("status", "body", "note"),
    [
        (404, b"", None),
        (500, b"{}", "HTTP 500"),
        (200, b"<html>", "are missing"),
        (200, b"[]", "HTTP 200"),
    ],
)
async def test_the_standard_metrics_stand_where_an_environment_has_none(
    tmp_path: Path, status: int, body: bytes, note: str | None
) -> None:
    results, rows = results_and_rows(tmp_path)
    asking = EnvironmentMetrics(environment(status, body), max_rows=100)
    assert await asking.extend(results, rows) == results
    assert (note is None and asking.notes == []) or (note is not None and note in asking.notes[0])


@pytest.mark.parametrize(
    ("told", "is_asked"),
    [(b'{"has_own":false}', False), (b'{"has_own":true}', True), (b"[]", True), (b"<html>", True)],
)
async def test_rows_are_sent_only_to_environments_with_metrics_of_their_own(
    tmp_path: Path, told: bytes, is_asked: bool
) -> None:
    results, rows = results_and_rows(tmp_path)
    seen: list[dict[str, Any]] = []
    asking = EnvironmentMetrics(environment(200, b"{}", seen, told), max_rows=2)
    assert await asking.extend(results, rows) == results
    assert [len(request["verify_responses"]) for request in seen] == ([1] if is_asked else [])
    assert len(asking.notes) == is_asked  # one agent has more rows than are sent


async def test_a_large_run_is_not_sent_back_to_its_agent(tmp_path: Path) -> None:
    results, rows = results_and_rows(tmp_path)
    seen: list[dict[str, Any]] = []
    asking = EnvironmentMetrics(environment(200, b"{}", seen), max_rows=2)
    await asking.extend(results, rows)
    assert len(seen) == 1
    assert asking.notes == [
        "the environment metrics of `a` are missing: the run is too large to send its rows"
    ]


def test_partial_coverage_is_among_the_key_metrics_whatever_an_environment_picks() -> None:
    standard = metrics_of([1.0, None]).results({})["simple_agent"]
    assert combine(standard, {"key_metrics": {"accuracy": 1.0}})["key_metrics"] == {
        "accuracy": 1.0,
        "coverage/reward": 50.0,
    }


def test_entries_of_tasks_that_are_no_list_are_not_taken_from_an_environment() -> None:
    standard = metrics_of([1.0]).results({})["simple_agent"]
    unusable: list[Any] = [{"0": 1.0}, [], None, 7]
    for entries in unusable:
        combined = combine(standard, {"group_level_metrics": entries})
        assert combined["group_level_metrics"] == standard["group_level_metrics"]


def test_a_row_counts_for_its_planned_rollout_even_with_another_identity() -> None:
    metrics, attempt = RunMetrics(), planned(3, 1)
    answer = scored(attempt, 0.5, _ng_task_index=9, _ng_rollout_index=9, _ng_attempt_index=9, steps=4)
    metrics.note(attempt, classify(attempt, answer))
    result = metrics.results({})["simple_agent"]
    (entry,) = result["group_level_metrics"]
    assert (entry["_ng_task_index"], entry["mean/steps"]) == (3, 4.0)
    assert "mean/_ng_task_index" not in result["agent_metrics"]


def test_the_file_has_the_entry_of_each_task_on_a_line_of_its_own() -> None:
    metrics = metrics_of([1.0] * 250)
    other = planned(0, agent="other")
    metrics.note(other, classify(other, scored(other, 0.5)))
    results = metrics.results({})
    document = b"".join(write_document(results))
    written = {entry["agent_ref"]["name"]: entry for entry in orjson.loads(document)}
    for agent, tasks in (("simple_agent", 250), ("other", 1)):
        entries = list(results[agent]["group_level_metrics"])
        assert len(entries) == tasks
        assert written[agent]["group_level_metrics"] == entries
        assert written[agent]["agent_metrics"] == results[agent]["agent_metrics"]
        assert written[agent]["key_metrics"] == results[agent]["key_metrics"]
    assert sum(line.startswith(b'{"_ng_task_index":') for line in document.splitlines()) == 251


def test_the_file_of_no_agent_is_an_empty_list() -> None:
    assert orjson.loads(b"".join(write_document({}))) == []


def test_the_file_lists_agents_with_their_reference() -> None:
    (entry,) = orjson.loads(b"".join(write_document(metrics_of([1.0]).results({}))))
    assert entry["agent_ref"] == {"type": "responses_api_agents", "name": "simple_agent"}
    lists = {"group_level_metrics", "repeat_level_metrics"}
    assert set(entry) == {"agent_ref", "agent_metrics", "key_metrics", *lists}


def test_classes_of_failures_count_as_zero_when_asked() -> None:
    metrics = RunMetrics({"engine:engine_down"})
    results: list[AttemptResult] = [scored(planned(0)), failure(), failure("other")]
    for task, result in enumerate(results):
        attempt = planned(task)
        metrics.note(attempt, classify(attempt, result))
    found = metrics.results({"simple_agent": Planned(4, 4)})["simple_agent"]["agent_metrics"]
    assert (found["mean/reward"], found["count/scored"], found["count/imputed"]) == (0.5, 2, 1)
    assert found["count/outcome/failed"] == 2
    assert [orjson.loads(row)["reward"] for row in metrics.imputed["simple_agent"]] == [0.0]


def test_rollouts_without_row_or_failure_count_as_zero_when_asked() -> None:
    metrics = metrics_of([1.0, None])
    metrics.note_missing(planned(task) for task in range(4))
    found = metrics.results({"simple_agent": Planned(4, 4)})["simple_agent"]["agent_metrics"]
    assert found["mean/reward"] == pytest.approx(1 / 3)
    assert (found["count/imputed"], found["count/outcome/missing"]) == (2, 2)


def test_the_environments_metrics_of_repeats_are_in_the_file() -> None:
    results = metrics_of([1.0]).results({"simple_agent": Planned(1, 1)})
    repeats = [{"_ng_rollout_index": 0, "solved": 1.0}]
    results["simple_agent"] = combine(results["simple_agent"], {"repeat_level_metrics": repeats})
    (document,) = orjson.loads(b"".join(write_document(results)))
    assert document["repeat_level_metrics"] == repeats


async def test_environments_see_the_rows_that_count_as_zero(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    results, rows = results_and_rows(tmp_path)
    asking = EnvironmentMetrics(environment(200, b"{}", seen), max_rows=100)
    await asking.extend(results, rows, {"a": [b'{"answer":7,"reward":0.0}']})
    of_a, of_b = (request["verify_responses"] for request in seen)
    assert of_a[0] == {"answer": 7, "reward": 0.0}
    assert (len(of_a), len(of_b)) == (4, 1)


async def test_environments_get_rows_without_requests_and_outputs(tmp_path: Path) -> None:
    response = {"id": "r", "output": [{"type": "message"}], "usage": {"total_tokens": 3}}
    verdict = {"reward": 1.0, "answer": 10**30, "agent_ref": {"name": "a"}}
    row = {**verdict, "responses_create_params": {"input": "Hi."}, "response": response}
    results, path = results_and_rows(tmp_path)
    path.write_bytes(dump_json(row) + b"\n")
    seen: list[dict[str, Any]] = []
    await EnvironmentMetrics(environment(200, b"{}", seen), max_rows=100).extend(results, path)
    kept = {**verdict, "response": {"usage": {"total_tokens": 3}}}
    assert seen[0]["verify_responses"] == [kept]
