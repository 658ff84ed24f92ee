"""Tasks of a run found again in changed datasets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.task_matching import (
    match_tasks,
    pack_numbers,
    unpack_numbers,
)
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import Plan, PlanSettings
from nemo_gym.rollouts.plan.routing import Routing


def row(name: str, agent: str = "agent", **params: Any) -> dict[str, Any]:
    request = {"input": f"question {name}", **params}
    return {"responses_create_params": request, "answer": name, "agent_ref": {"name": agent}}


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in rows))
    return path


def plan_of(folder: Path, *files: Sequence[dict[str, Any]], repeats: int = 1, **options: Any) -> PlanSettings:
    paths = [write(folder / f"tasks_{place}.jsonl", rows) for place, rows in enumerate(files)]
    return PlanSettings(tuple(DatasetFile(path, num_repeats=repeats) for path in paths), **options)


def store(folder: Path, rows: Sequence[dict[str, Any]], repeats: int = 1, **options: Any) -> RunFiles:
    """A run of these tasks, as far as its task rows go."""
    files = RunFiles.from_output(folder / "out.jsonl")
    plan = Plan(plan_of(folder, rows, repeats=repeats, **options))
    files.materialized_inputs.write_bytes(b"".join(attempt.row + b"\n" for attempt in plan))
    return files


def numbers(files: RunFiles, plan: PlanSettings, **options: Any) -> list[list[int]]:
    return [list(each) for each in match_tasks(files, plan, **options).numbers]


def tasks(names: str, **options: Any) -> list[dict[str, Any]]:
    return [row(name, **options) for name in names]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("abcd", "xabcd", [4, 0, 1, 2, 3]),
        ("abcd", "abcdx", [0, 1, 2, 3, 4]),
        ("abcd", "dcba", [3, 2, 1, 0]),
        ("abcd", "bd", [1, 3]),
        ("abcd", "axd", [0, 4, 3]),
        ("aab", "baa", [2, 0, 1]),
        ("ab", "aab", [0, 2, 1]),
        ("aab", "ab", [0, 2]),
    ],
)
def test_tasks_keep_their_indices_wherever_they_stand(
    tmp_path: Path, before: str, after: str, expected: list[int]
) -> None:
    files = store(tmp_path, tasks(before))
    assert numbers(files, plan_of(tmp_path, tasks(after))) == [expected]


def test_tasks_may_move_to_another_file(tmp_path: Path) -> None:
    files = store(tmp_path, tasks("abcd"))
    assert numbers(files, plan_of(tmp_path, tasks("dx"), tasks("ba"))) == [[3, 4], [1, 0]]


def test_what_is_gone_and_what_is_new_is_counted(tmp_path: Path) -> None:
    match = match_tasks(store(tmp_path, tasks("abc")), plan_of(tmp_path, tasks("cxy")))
    assert (match.kept, match.added, match.gone) == (1, 2, 2)
    assert match.describe() == (
        "tasks were matched by content: 1 of the run, 2 new, 2 of the run are not in the input any more"
    )


def test_another_spelling_of_a_row_is_the_same_task(tmp_path: Path) -> None:
    files = store(tmp_path, tasks("ab"))
    plan = plan_of(tmp_path, [])
    text = '{ "answer": "b", "responses_create_params": {"input": "question\\u0020b"}, "agent_ref":{"name":"agent"} }'
    plan.datasets[0].path.write_text(f"\n{text}\n\n")
    assert numbers(files, plan) == [[1]]


def test_tasks_that_differ_in_sampling_alone_are_told_apart(tmp_path: Path) -> None:
    cold, warm = row("a", temperature=0), row("a", temperature=1)
    files = store(tmp_path, [cold, warm])
    assert numbers(files, plan_of(tmp_path, [warm, cold])) == [[1, 0]]
    assert numbers(files, plan_of(tmp_path, [row("a", temperature=0.5), cold])) == [[1, 0]]


def test_a_task_of_another_agent_is_another_task(tmp_path: Path) -> None:
    one, other = row("a", "one"), row("a", "other")
    files = store(tmp_path, [one, other])
    assert numbers(files, plan_of(tmp_path, [other, one])) == [[1, 0]]
    third = plan_of(tmp_path, [row("a", "third"), one])
    assert numbers(files, third) == [[2, 0]]
    assert numbers(files, third, with_any_agent=True) == [[1, 0]]


def test_tasks_that_several_agents_attempt_are_found(tmp_path: Path) -> None:
    routing = Routing(fan_out={"agent": ["one", "two"]})
    files = store(tmp_path, tasks("ab"), repeats=2, routing=routing)
    assert numbers(files, plan_of(tmp_path, tasks("xba"), repeats=2, routing=routing)) == [[2, 1, 0]]


def test_seeds_do_not_hide_a_task(tmp_path: Path) -> None:
    warm, cold = row("a", temperature=1), row("a", temperature=0)
    files = store(tmp_path, [warm, cold], repeats=3, add_seed=True)
    assert numbers(files, plan_of(tmp_path, [cold, warm], repeats=3, add_seed=True)) == [[1, 0]]


def test_a_malformed_row_has_an_index_that_no_task_of_the_run_has(tmp_path: Path) -> None:
    files = store(tmp_path, tasks("ab"))
    plan = plan_of(tmp_path, tasks("b"))
    plan.datasets[0].path.write_bytes(b"{broken\n" + plan.datasets[0].path.read_bytes())
    assert numbers(files, plan) == [[2, 1]]
    assert match_tasks(files, plan).added == 0


def test_scored_rows_hold_tasks_too(tmp_path: Path) -> None:
    files = RunFiles.from_output(tmp_path / "out.jsonl")
    verdict = {"response": {"output": []}, "reward": 1.0, "extracted": "b", "_ng_outcome": "completed"}
    kept = {"_ng_task_index": 5, "_ng_rollout_index": 0, **row("b"), **verdict}
    other = {**kept, "_ng_task_index": 6, "answer": "other"}  # the same question
    torn = b'{"_ng_task_index":9,"_ng_rollout'  # by a kill
    files.rows.write_bytes(b"\n".join([orjson.dumps(other), orjson.dumps(kept), torn]))
    assert numbers(files, plan_of(tmp_path, tasks("cab"))) == [[7, 8, 5]]


def test_a_damaged_row_of_the_run_is_named(tmp_path: Path) -> None:
    files = store(tmp_path, tasks("ab"))
    files.materialized_inputs.write_bytes(b"{damaged\n" + files.materialized_inputs.read_bytes())
    with pytest.raises(ConfigError, match=r"out_materialized_inputs\.jsonl:1"):
        match_tasks(files, plan_of(tmp_path, tasks("a")))


def test_datasets_without_a_task_of_the_run_are_another_run(tmp_path: Path) -> None:
    files = store(tmp_path, tasks("ab"))
    with pytest.raises(ConfigError, match="has no task of the run"):
        match_tasks(files, plan_of(tmp_path, tasks("xy")), with_any_agent=True)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), unique=True), max_size=3))
def test_numbers_are_kept_by_a_manifest(numbered: list[list[int]]) -> None:
    packed = pack_numbers(numbered)
    flat = [number for part in numbered for number in part]
    assert (packed is None) == (flat == list(range(len(flat))))
    if packed is not None:
        assert [list(part) for part in unpack_numbers(packed)] == numbered


def test_numbers_that_count_from_0_need_no_place_in_a_manifest() -> None:
    assert pack_numbers([range(3), range(3, 5)]) is None
    assert pack_numbers([range(3), range(4, 5)]) == [[[0, 3]], [[4, 1]]]
    assert pack_numbers([range(0), range(2)]) is None
