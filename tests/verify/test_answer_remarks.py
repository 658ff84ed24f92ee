"""Remarks behind the value of an answer line: those that leave it, and those that undo it."""

from __future__ import annotations

import pytest

from nemo_gym.verify.answer_remarks import strip_remarks


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("45, because every handshake counts twice", "45"),
        ("45 handshakes, assuming that nobody shakes hands twice", "45 handshakes"),
        ("45 (see the derivation above)", "45"),
        ("45; the others are too large", "45"),
        ("45 — as shown above", "45"),
        ("5/6, not 6/5 as one gets by inverting", "5/6"),
        ("$k = -4$ (the other root, $k = 4$, is extraneous)", "k = -4"),
        ("12 (twelve) eggs", "12 eggs"),
        ("twelve (12)", "12"),
        ("(B) 12", "12"),
        ("therefore: 12", "12"),
        ("14 🎉", "14"),
        ("x = 2, y = 3", "x = 2, y = 3"),
        ("2 hours, 30 minutes", "2 hours, 30 minutes"),
        ("Paris, because it is the capital", "Paris, because it is the capital"),
    ],
)
def test_words_that_explain_a_value_leave_it(line: str, value: str) -> None:
    assert strip_remarks(line) == value


@pytest.mark.parametrize(
    "line",
    [
        "45 (incorrect, see below)",
        "45, so perhaps 46",
        "45 — no, 46",
        "45; this is wrong",
        "45, which is not right",
        "45 — or 46",
        "12 (thirteen)",
        "9, with remainder 2",
    ],
)
def test_words_that_undo_a_value_stay(line: str) -> None:
    assert strip_remarks(line) == line
