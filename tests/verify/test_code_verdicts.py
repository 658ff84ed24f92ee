"""The detail of a failed solution can stand in a row."""

from __future__ import annotations

import pytest

from nemo_gym.verify._code_verdicts import Reason, SolutionFailed


@pytest.mark.parametrize(
    ("said", "shown"), [("", ""), ("no é", "no é"), ("a\ud800", "a\ufffd"), ("\udc80\udfff", "\ufffd\ufffd")]
)
def test_surrogates_of_a_solution_are_replaced(said: str, shown: str) -> None:
    assert SolutionFailed(Reason.RAISED, said).detail == shown
