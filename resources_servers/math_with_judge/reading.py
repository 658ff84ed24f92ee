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
    r"(?P<number>[-−+]?\d[\d.,/]*)\s*(?![万萬千百亿億兆만억천백])(?!.*(?:ません|ない|아니|아닙|не\b|[不非]))(?!тыс|млн|млрд|миллион|миллиард|и(?:ли)?\b|не\b)"
    r"[\u0400-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af/\s]+[²³]?"
)
"""A number and what it counts in a script other than the Latin: "12 км/ч", "12 个"."""


_COUNTED_ELSEWHERE = re.compile(
    r"(?P<number>[-−+]?\d[\d.,/]*)\s+(?!(?:dozen|hundred|thousand|[a-z]+illi|score|pair|gross|per|mille|mila|mil|tausend|hundert|tusen"
    r"|duizend|tysi|bin|times|fois|mal|veces|volte|squared|cubed|factorial|root|mod|minus|plus|more|less|fewer|half|choose|bis|oder|und"
    r"|wrong|incorrect|false|maybe|perhaps|probably|invalid|nope|approx|unsure|unclear|remainder|reste?|resto|rest))[^\W\d_]{3,}",
    re.IGNORECASE,
)
"""A number and one word that it counts, in any language: "12 Minuten", "12 mele"."""


def find_math_answer(text: str, expected: str, forms: Sequence[AnswerForm] = tuple(AnswerForm)) -> str | None:
    """Return the final answer of `text`, or None, with its unit where the expected answer has one.

    An answer line that is a sentence is its value: "Answer: The train travels 240 miles."
    """
    answer = final_answer(text, forms)
    if answer is None:
        return None
    if answer.form is AnswerForm.LINE:
        answer = FinalAnswer(
            _read_line(answer.text, has_words=_LETTERS.search(expected) is not None), answer.form
        )
    return add_unit(expected, answer, text)


_LETTERS = re.compile(r"[a-zA-Z%°]{1}")


def _read_line(line: str, *, has_words: bool) -> str:
    """Return the value of an answer line. `has_words`: the expected answer has words or units, so that they count."""
    plain = _APPROXIMATE.sub("", line, count=1) if _APPROXIMATE.match(line) else line
    measured = _UNIT_ELSEWHERE.fullmatch(plain)
    plain = measured["number"] if measured else plain
    value = find_conclusion(f"{plain}.") if _SENTENCE.match(plain) else None
    plain = value or plain
    counted = None if has_words else _COUNTED_ELSEWHERE.fullmatch(plain)
    return counted["number"] if counted else plain
