"""An export of trajectories has every scored rollout, and exports for training have no foreign one without tokens."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.export.report import LeftOut
from nemo_gym.sources.atif.reading import read_trajectory
from tests.export.rows import exported, failed, row
from tests.sources.atif.test_reading import METRICS, answers, asks, trajectory
from tests.sources.atif.trajectory_rows import IMAGE, SEARCH


def test_masked_rollouts_are_in_it_and_what_only_extra_holds_is_counted(tmp_path: Path) -> None:
    image = [{"role": "user", "content": [IMAGE]}]
    rows = [row(0, items=[SEARCH]), row(1, prompt=image, _ng_masked=True), failed(2)]
    lines, report = exported(tmp_path, "atif", rows, name="out.jsonl")
    assert [line["trajectory_id"] for line in lines] == ["0-0", "1-0"]
    assert report.left_out == {LeftOut.FAILED: 1}
    assert report.kept_aside == {"item:web_search_call": 1}
    assert "        1  only in `extra`: item:web_search_call" in list(report.lines())
    assert len(list((tmp_path / "out_media").iterdir())) == 1


def test_a_foreign_rollout_is_trained_on_only_with_whole_tokens(tmp_path: Path) -> None:
    rows = []
    for number, metrics in enumerate([METRICS, METRICS, None]):
        given = trajectory(asks(), answers(metrics=metrics), extra={"reward": 1.0})
        read = read_trajectory(given, "here").row
        rows.append({"_ng_task_index": 0, "_ng_rollout_index": number, **read})
    rows[1]["reward"] = 0.0
    for name in ("sft", "grpo", "prime_rl", "nemo_rl"):
        lines, report = exported(tmp_path, name, rows)
        assert report.left_out[LeftOut.FOREIGN] == 1
        assert report.exported >= 1, name
        assert lines
    assert exported(tmp_path, "atif", rows)[1].exported == 3
