"""The report of an export."""

from __future__ import annotations

from nemo_gym.export.report import LeftOut, Loss, Report, Unsuitable


def test_every_reason_and_loss_has_its_explanation() -> None:
    every = [*LeftOut, *Loss]
    assert all(" " in each.explanation for each in every)
    assert len({each.explanation for each in every}) == len(every)


def test_every_rollout_is_exported_or_left_out_for_a_reason() -> None:
    report = Report(read=4)

    def make(name: str) -> str:
        if name.startswith("bad"):
            raise Unsuitable(LeftOut.MULTIMODAL, "an image")
        return name.upper()

    class Named(str):
        @property
        def name(self) -> str:
            return str(self)

    rollouts = [Named(name) for name in ("a", "bad 1", "b", "bad 2")]
    assert [made for _, made in report.suitable(rollouts, make)] == ["A", "B"]
    report.export([Loss.REASONING, Loss.REASONING])
    report.export()
    assert report.exported + report.left_out.total() == report.read
    assert report.losses == {Loss.REASONING: 1}
    assert report.to_json()["left_out"] == {
        "multimodal": {"rollouts": 2, "why": LeftOut.MULTIMODAL.explanation, "example": "bad 1: an image"}
    }


def test_the_printed_report_has_a_line_for_each_count() -> None:
    report = Report(read=2_000, exported=1_999)
    report.rows["out.jsonl"] = 1_990
    report.duplicates = 9
    report.leave_out("task 7", LeftOut.FAILED)
    report.losses[Loss.REASONING] = 3
    assert list(report.lines()) == [
        "1,999 of 2,000 rollouts exported",
        "    1,990  rows in out.jsonl",
        "        9  duplicate rows were not written",
        "1 left out:",
        "        1  failed: the attempt failed; a failure is not a score (first: task 7)",
        "exported with a loss:",
        "        3  reasoning: reasoning is omitted",
    ]
