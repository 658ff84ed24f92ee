"""Task rows that cannot be graded, and expected answers that no answer equals."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from nemo_gym.failures import InputError
from nemo_gym.verify.answer_boxes import last_boxed
from nemo_gym.verify.answer_marks import ANSWER_WORDS, FOREIGN_ANSWER_WORDS
from nemo_gym.verify.answers import last_marked_line, last_tagged

__all__ = ["invalid_row", "refuse_unequalled"]

_MARKS = (
    re.compile(r".*#{4}\s*(?P<answer>\S.*)"),
    re.compile(
        r"(?i:(?:.*[.!?:;,]\s+)?\W*(?:(?:so|thus|hence|therefore|then)\W+)*(?:(?:the|my|our|final|correct|right)\s+)*+"
        rf"(?=answer\b){ANSWER_WORDS.pattern})"
    ),
    *FOREIGN_ANSWER_WORDS,
)
"""Marks at the beginning of a line or sentence: "question and answer: a dialogue" is an answer itself."""
_SHOWN = 60


def invalid_row(
    problem: str, *, param: str | None = None, remedy: str = "Correct it in the dataset."
) -> InputError:
    """Return the error of a row, to be raised; `param` names the invalid field."""
    message = f"The task row cannot be graded: {problem.rstrip(' .')}."
    return InputError(message, code="invalid_row", param=param, remedy=remedy)


async def refuse_unequalled(
    expected: str, is_solved_by: Callable[[str], Awaitable[bool]], *, param: str = "expected_answer"
) -> None:
    r"""Raise `InputError` for an expected answer that marks another text as its answer, such as "5 + 1 = 6 #### 6".

    `is_solved_by` returns whether the verifier accepts a response. It is asked about the expected answer as it is, and
    about the marked one in a box: if it accepts neither, no attempt is ever right. Marks are "####", `\boxed`,
    `<answer>` and "The answer is".
    """
    marked = find_marked_answer(expected)
    if marked is None or await is_solved_by(expected) or await is_solved_by(f"\\boxed{{{marked}}}"):
        return
    shown = expected if len(expected) <= _SHOWN else f"…{expected[-_SHOWN:]}"
    raise invalid_row(
        f"{param}: no answer equals {shown!r}, which contains the mark of an answer",
        param=param,
        remedy=f"Write only the answer: {marked!r}.",
    )


def find_marked_answer(expected: str) -> str | None:
    """Return the text that an expected answer marks as the answer; None without a mark."""
    marked = last_boxed(expected) or last_tagged(expected) or last_marked_line(expected, _MARKS)
    return marked and marked.rstrip(" .")
