from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.export.report import LeftOut
from tests.export.rows import exported, row, text


def test_the_threshold_decides_which_answers_are_desirable(tmp_path: Path) -> None:
    rows, _ = exported(
        tmp_path, "kto", [row(0, n, n / 4, [text(str(n))]) for n in range(5)], options={"threshold": 0.75}
    )
    assert [each["label"] for each in rows] == [False, False, False, True, True]


def test_equal_answers_with_both_labels_are_left_out(tmp_path: Path) -> None:
    answers = [("same", 1.0), ("same", 0.0), ("right", 1.0), ("right", 1.0), ("wrong", 0.0)]
    rows = [row(0, n, reward, [text(said)]) for n, (said, reward) in enumerate(answers)]
    rows.append(row(0, 9, 0.0, [text("right")], agent_ref={"name": "another_agent"}))
    rows.append(row(1, 0, 0.0, [text("same")]))
    written, report = exported(tmp_path, "kto", rows)
    assert [(each["completion"][0]["content"], each["label"]) for each in written] == [
        ("wrong", False),
        ("same", False),
    ]
    assert report.left_out == {LeftOut.CONTRADICTORY: 5}, "the rows of a task, by every agent"


def test_both_labels_of_an_answer_in_two_tasks_are_counted(tmp_path: Path) -> None:
    rows = [row(task, 0, float(task % 2), [text("same")], prompt="one prompt") for task in range(4)]
    written, report = exported(tmp_path, "kto", rows)
    assert [each["label"] for each in written] == [False, True]
    assert (report.duplicates, report.contradictions) == (2, 2)
    assert "2  exported answers have the other label" in "\n".join(report.lines())
    assert report.to_json()["contradictions"] == 2


@pytest.mark.parametrize("format", ["kto", "dpo", "sft"])
def test_an_answer_that_broke_its_verifier_is_no_example(tmp_path: Path, format: str) -> None:
    fault: dict[str, Any] = {"answer_fault": "raised", "answer_fault_detail": "KeyError: 'bonus'"}
    rows = [row(0, 0, 1.0), row(0, 1, 0.0, **fault), row(0, 2, 0.5)]
    written, report = exported(tmp_path, format, rows, min_reward=0.0)
    assert report.left_out[LeftOut.BROKE_VERIFIER] == 1
    assert written
    assert "answer 0/1" not in str(written)


def test_a_truncated_answer_is_undesirable_or_left_out(tmp_path: Path) -> None:
    rows = [row(0, n, reward, _ng_outcome="truncated") for n, reward in enumerate((1.0, 0.0))]
    written, report = exported(tmp_path, "kto", rows)
    assert [each["label"] for each in written] == [False]
    assert report.left_out == {LeftOut.OUTCOME: 1}
    written, _ = exported(tmp_path, "kto", rows, options={"label_truncated": True})
    assert [each["label"] for each in written] == [True, False]
