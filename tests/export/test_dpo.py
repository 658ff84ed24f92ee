from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.export.report import LeftOut
from tests.export.rows import exported, failed, row, text


def pairs(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> list[tuple[str, str]]:
    written, _ = exported(tmp_path, "dpo", rows, options=options)
    return [(each["chosen"][0]["content"], each["rejected"][0]["content"]) for each in written]


def group(*rewards: float, tokens: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    lengths = tokens or (10,) * len(rewards)
    return [
        row(0, repeat, reward, [text(f"{reward:g}")], tokens=length)
        for repeat, (reward, length) in enumerate(zip(rewards, lengths, strict=True))
    ]


def test_the_best_is_paired_with_the_worst(tmp_path: Path) -> None:
    assert pairs(tmp_path, group(1, 3, 0, 2)) == [("3", "0")]


def test_all_pairs_are_a_margin_apart(tmp_path: Path) -> None:
    found = pairs(tmp_path, group(0, 1, 3), pairs="all", margin=2)
    assert sorted(found) == [("3", "0"), ("3", "1")]


def test_pairs_matched_by_length_use_each_answer_once(tmp_path: Path) -> None:
    rows = group(1, 0.9, 0, 0.1, tokens=(100, 20, 25, 90))
    assert sorted(pairs(tmp_path, rows, pairs="length_matched", margin=0.5)) == [("0.9", "0"), ("1", "0.1")]


def test_equal_rewards_make_no_pair(tmp_path: Path) -> None:
    rows, report = exported(tmp_path, "dpo", group(1, 1))
    assert rows == []
    assert report.left_out == {LeftOut.UNPAIRED: 2}


def test_a_failure_is_never_the_worse_answer(tmp_path: Path) -> None:
    rows = [*group(1, 0.5), failed(0, 2)]
    assert pairs(tmp_path, rows) == [("1", "0.5")]


@pytest.mark.parametrize(("may", "expected"), [(False, [("1", "0")]), (True, [("2", "0")])])
def test_a_truncated_answer_is_chosen_only_with_the_option(
    may: bool, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    rows = group(2, 1, 0)
    rows[0]["_ng_outcome"] = "truncated"
    assert pairs(tmp_path, rows, choose_truncated=may) == expected


def test_a_truncated_answer_may_be_rejected(tmp_path: Path) -> None:
    rows = group(1, 0)
    rows[1]["_ng_outcome"] = "truncated"
    assert pairs(tmp_path, rows) == [("1", "0")]


def test_both_answers_of_a_pair_have_the_same_prompt(tmp_path: Path) -> None:
    rows = group(1, 0)
    rows[1]["responses_create_params"]["input"] = "Something else?"
    _, report = exported(tmp_path, "dpo", rows)
    assert report.left_out == {LeftOut.PROMPTS_DIFFER: 1, LeftOut.UNPAIRED: 1}


def test_rollouts_of_different_tasks_are_never_paired(tmp_path: Path) -> None:
    assert pairs(tmp_path, [row(0, 0, 1.0), row(1, 0, 0.0)]) == []
