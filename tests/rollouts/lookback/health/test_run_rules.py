"""Each planted fault across rows is found, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rollouts.lookback.health.healthy_run import (
    check,
    healthy_rows,
    last_item,
    message,
    names_found,
    prose,
    tokens,
)

Rows = list[dict[str, Any]]


def task_of(rows: Rows, task: int) -> Rows:
    return sorted((r for r in rows if r["_ng_task_index"] == task), key=lambda r: int(r["_ng_rollout_index"]))


def repeat_a_rollout(rows: Rows) -> tuple[int, ...]:
    rows.append({**rows[10], "response": rows[11]["response"] | {"output": [message("short") | tokens()]}})
    return (2_001,)


def repeat_an_output(rows: Rows) -> tuple[int, ...]:
    for index in (40, 60):
        rows[index]["response"] = rows[20]["response"]
    return (41, 61)


def win_shortly(rows: Rows) -> tuple[int, ...]:
    winner = task_of(rows, 8)[0]
    winner["response"]["output"] = [message("It is 7.") | tokens()]
    return (rows.index(winner) + 1,)


@pytest.mark.parametrize(
    ("rule", "plant"),
    [
        ("duplicate_rollout", repeat_a_rollout),
        ("identical_output", repeat_an_output),
        ("short_win", win_shortly),
    ],
)
def test_planted_faults_across_rows_are_found(
    tmp_path: Path, rule: str, plant: Callable[[Rows], tuple[int, ...]]
) -> None:
    rows = healthy_rows()
    lines = plant(rows)
    report = check(tmp_path, rows)
    assert names_found(report) == [rule]
    assert tuple(found.line for found in report.rules[rule].first) == lines


def test_groups_without_variance_are_found(tmp_path: Path) -> None:
    rows = healthy_rows()
    for task, is_right in ((7, True), (8, False)):
        for row in task_of(rows, task):
            row |= {"reward": float(is_right), "correct": is_right}
    report = check(tmp_path, rows)
    assert names_found(report) == ["no_variance"]
    assert [(found.task, found.line) for found in report.rules["no_variance"].first] == [(7, None), (8, None)]


def test_rewards_that_grow_with_length_are_found(tmp_path: Path) -> None:
    rows = healthy_rows()
    for row in rows:
        if row["reward"]:
            last_item(row)["content"][0]["text"] += prose(random.Random(1), 120)
    report = check(tmp_path, rows)
    assert names_found(report) == ["length_reward"]
    assert report.rules["length_reward"].count == 1


def of_two_agents(rows: Rows) -> Rows:
    """The same rows, the repeats of each task in turn by two agents."""
    for row in rows:
        row["agent_ref"] = {"type": "responses_api_agents", "name": "ab"[row["_ng_rollout_index"] % 2]}
    return rows


def test_variance_between_agents_is_none_of_an_agent(tmp_path: Path) -> None:
    rows = of_two_agents(healthy_rows())
    for row in task_of(rows, 7):
        is_right = row["agent_ref"]["name"] == "a"
        row |= {"reward": float(is_right), "correct": is_right}
    found = check(tmp_path, rows).rules["no_variance"]
    assert {(each.task, each.text.rpartition(" ")[2]) for each in found.first} >= {(7, "a"), (7, "b")}
    for finding in found.first:
        own = [
            row["reward"]
            for row in task_of(rows, finding.task or 0)
            if row["agent_ref"]["name"] == finding.text.rpartition(" ")[2]
        ]
        assert len(own) > 1
        assert len({*own}) == 1


def test_an_agent_that_writes_little_does_not_win_shortly(tmp_path: Path) -> None:
    rows = of_two_agents(healthy_rows())
    for row in task_of(rows, 8):
        if row["agent_ref"]["name"] == "b":
            row["response"]["output"] = [message(f"It is {row['_ng_rollout_index']}.") | tokens()]
    assert "short_win" not in names_found(check(tmp_path, rows))


def test_a_run_without_a_reward_is_found_with_the_reason_of_its_verdicts(tmp_path: Path) -> None:
    rows = [{**row, "reward": 0.0, "library_reason": "undecided"} for row in healthy_rows()]
    (found,) = [each for each in check(tmp_path, rows).found if each.rule.name == "only_zeros"]
    assert "`library_reason` is undecided in all of them" in found.first[0].text
    assert "only_zeros" not in names_found(check(tmp_path, [*rows[1:], {**rows[0], "reward": 1.0}]))
