from __future__ import annotations

from pathlib import Path

from nemo_gym.export.report import LeftOut
from tests.export.rows import exported, row, text


def test_the_threshold_decides_which_answers_are_desirable(tmp_path: Path) -> None:
    rows, _ = exported(
        tmp_path, "kto", [row(0, n, n / 4, [text(str(n))]) for n in range(5)], options={"threshold": 0.75}
    )
    assert [each["label"] for each in rows] == [False, False, False, True, True]


def test_a_truncated_answer_is_undesirable_or_left_out(tmp_path: Path) -> None:
    rows = [row(0, n, reward, _ng_outcome="truncated") for n, reward in enumerate((1.0, 0.0))]
    written, report = exported(tmp_path, "kto", rows)
    assert [each["label"] for each in written] == [False]
    assert report.left_out == {LeftOut.OUTCOME: 1}
    written, _ = exported(tmp_path, "kto", rows, options={"label_truncated": True})
    assert [each["label"] for each in written] == [True, False]
