"""The mathematical answer of a message."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nemo_gym.verify.answers import AnswerForm, FinalAnswer, final_answer
from nemo_gym.verify.conclusions import find_conclusion
from resources_servers.math_with_judge.stated_units import add_unit

_SENTENCE = re.compile(r"[^\W\d_]{2,}\s+\S+\s+[^\n]*\d")
_APPROXIMATE = re.compile(
    r"(?:approximately|approx\.?|about|roughly|around|nearly|circa|≈|\\approx)\s*(?=[-−$\d.])", re.IGNORECASE
)


_UNIT_ELSEWHERE = re.compile(
    r"(?P<number>[-−+]?\d[\d.,/]*)\s*(?![万萬千百亿億兆만억천백])(?!тыс|млн|млрд|миллион|миллиард|и(?:ли)?\b|не\b)"
    r"[\u0400-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af/\s]+[²³]?"
)
"""A number and what it counts in a script other than the Latin: "12 км/ч", "12 个"."""


def find_math_answer(text: str, expected: str, forms: Sequence[AnswerForm] = tuple(AnswerForm)) -> str | None:
    """Return the final answer of `text`, or None, with its unit where the expected answer has one.

    An answer line that is a sentence is its value: "Answer: The train travels 240 miles."
    """
    answer = final_answer(text, forms)
    if answer is None:
        return None
    if answer.form is AnswerForm.LINE:
        answer = FinalAnswer(_read_line(answer.text), answer.form)
    return add_unit(expected, answer, text)


def _read_line(line: str) -> str:
    plain = _APPROXIMATE.sub("", line, count=1) if _APPROXIMATE.match(line) else line
    measured = _UNIT_ELSEWHERE.fullmatch(plain)
    plain = measured["number"] if measured else plain
    value = find_conclusion(f"{plain}.") if _SENTENCE.match(plain) else None
    return value or plain
