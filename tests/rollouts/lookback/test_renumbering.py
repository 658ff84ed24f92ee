"""Tasks of shards are matched by their content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.renumbering import Renumbering, ShardFiles, renumber
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import PlacedRows
from tests.rollouts.stored_runs import failure_row, scored_row, store


def renumbered(folder: Path, *shards: list[dict[str, Any]], tasks: bool = True) -> Renumbering:
    opened = []
    for number, rows in enumerate(shards):
        scored = [row for row in rows if "reward" in row]
        failed = [row for row in rows if "reward" not in row]
        files = RunFiles.from_output(store(folder / f"{number}.jsonl", scored, failed, tasks=tasks))
        paths = (files.rows, files.failures, files.materialized_inputs)
        opened.append(ShardFiles(*map(PlacedRows, paths)))
    return renumber(opened)


def test_the_first_shard_keeps_its_numbers(tmp_path: Path) -> None:
    (first,) = renumbered(tmp_path, [scored_row(3), failure_row(7, 2)]).identities
    assert first == {(3, 0): (3, 0), (7, 2): (7, 2)}


def test_repeats_of_other_numbers_keep_them(tmp_path: Path) -> None:
    found = renumbered(tmp_path, [scored_row(0, 0)], [scored_row(0, 1)], [scored_row(0, 0, 0.5)])
    assert [dict(each) for each in found.identities] == [
        {(0, 0): (0, 0)},
        {(0, 1): (0, 1)},
        {(0, 0): (0, 2)},
    ]
    assert found.repeated_tasks == {"simple_agent": 2}


def test_equal_tasks_of_one_shard_stay_apart_and_are_matched_in_order(tmp_path: Path) -> None:
    twins = [{**scored_row(0), "_ng_task_index": task} for task in (0, 1)]
    found = renumbered(tmp_path, twins, [{**row, "reward": 0.5} for row in twins], tasks=False)
    assert found.identities[1] == {(0, 0): (0, 1), (1, 0): (1, 1)}


def test_a_task_of_which_only_the_input_is_known_is_matched_by_it(tmp_path: Path) -> None:
    whole = store(tmp_path / "whole.jsonl", [scored_row(4)])
    bare = store(tmp_path / "bare.jsonl", [scored_row(4, 1)], tasks=False)
    for order in ((whole, bare), (bare, whole)):
        files = [RunFiles.from_output(path) for path in order]
        opened = [
            ShardFiles(*map(PlacedRows, (each.rows, each.failures, each.materialized_inputs)))
            for each in files
        ]
        assert {
            task for each in renumber(opened).identities for (task, _) in filter(None, each.values())
        } == {4}


def test_a_task_row_that_is_no_object_is_named(tmp_path: Path) -> None:
    shard = store(tmp_path / "one.jsonl", [scored_row(0)])
    head = b'{"_ng_task_index":0,"_ng_rollout_index":0,"_ng_row_version":"1.0",oops\n'
    (tmp_path / "one_materialized_inputs.jsonl").write_bytes(head)
    files = RunFiles.from_output(shard)
    opened = ShardFiles(*map(PlacedRows, (files.rows, files.failures, files.materialized_inputs)))
    with pytest.raises(ConfigError, match=r"task 0, repeat 0 for .*one_materialized_inputs"):
        renumber([opened])


def test_the_tasks_and_copies_of_two_agents_are_counted_for_each(tmp_path: Path) -> None:
    timed: dict[str, Any] = {"_ng_timing": {"total": 1.5}}
    first = [scored_row(task, place, agent="ab"[place], **timed) for task in range(2) for place in range(2)]
    other = [first[1], scored_row(1, 0, 0.5, agent="a"), scored_row(1, 1, 0.5, agent="c")]
    found = renumbered(tmp_path, first, other)
    assert found.repeated_tasks == {"a": 1, "b": 1}
    assert found.copies == {"b": 1}


def test_shards_of_two_agents_on_the_same_tasks_repeat_no_task_of_an_agent(tmp_path: Path) -> None:
    found = renumbered(tmp_path, [scored_row(0, agent="a")], [scored_row(0, agent="b")])
    assert found.repeated_tasks == {}
    assert found.identities[1] == {(0, 0): (0, 1)}
