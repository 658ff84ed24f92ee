r"""The unit that a text gives behind its answer: `$\boxed{45}$ radians`, `\boxed{5}\text{ km}`, "She pays 45 cents."

It counts only against an expected answer that has a unit: 45 radians are not 45 degrees.
"""

from __future__ import annotations

import re

from nemo_gym.verify.answer_boxes import find_box, write_braces
from nemo_gym.verify.answers import MAX_SEARCHED_CHARS, AnswerForm, FinalAnswer, read_inner_answer
from nemo_gym.verify.numbers import read_quantity
from nemo_gym.verify.units import Unit, find_unit, read_unit

_LONGEST = 80
"""Maximum number of characters behind a box that are read."""
_TYPESETTING = (
    (re.compile(r"\\(?:text|mathrm|mbox|textbf)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\^\s*\{?\s*\\circ\s*\}?"), "°"),
    (re.compile(r"\^\s*\{\s*(-?\d)\s*\}"), r"^\1"),
    (re.compile(r"\\[,;:! ()\[\]]|\\q?quad(?![a-zA-Z])|[$*~]"), " "),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"²"), "^2"),
    (re.compile(r"³"), "^3"),
)
_CLAUSE_END = re.compile(r"[.,;:!?()\n—–]")
_TOKEN = re.compile(r"[^\W\d_]+(?:\s*/\s*[^\W\d_]+)?(?:\^-?\d)?|°\s?[CF]?(?![a-zA-Z])|[%‰€£¥]|\S+")
_PERMILLE = re.compile(r"\s*(?:‰|per\s+(?:thousand|mille)\b|permille\b)", re.IGNORECASE)
_JOINS = frozenset({"per", "square", "cubic", "sq", "cu"})
_MORE = frozenset({"per", "a", "an", "each", "every", "of", "/", "^"})
"""Words behind a unit that make another unit of it."""
_WORDS = frozenset(
    {"in", "a", "A", "as", "at", "am", "s", "h", "d", "second", "m", "g", "l", "J", "N", "W", "V", "K", "B"}
)
"""Units that are words or names too: they are units at the end of a clause only."""


def add_unit(expected: str, answer: FinalAnswer, text: str) -> str:
    """Return the answer of `text`, with the unit behind its box or number if only the expected answer has a unit."""
    if not _has_unit(expected) or _has_unit(answer.text) or _WORDS_IN_BOX.search(answer.text):
        return answer.text
    unit = read_unit_behind(_find_words_behind(answer, text))
    name, _, power = unit.partition("^")
    return rf"{answer.text}\text{{ {name}}}{f'^{power}' if power else ''}" if unit else answer.text


def _find_words_behind(answer: FinalAnswer, text: str) -> str:
    if answer.form is AnswerForm.SENTENCE:
        return text.rpartition(answer.text)[2]
    box = find_box(write_braces(text[-MAX_SEARCHED_CHARS:])) if answer.form is AnswerForm.BOXED else None
    return box.rest if box and read_inner_answer(box.answer) == answer.text else ""


_WORDS_IN_BOX = re.compile(r"\\(?:text|mathrm)|(?<![\\a-zA-Z])[a-zA-Z]{4}")


def _has_unit(text: str) -> bool:
    quantity = read_quantity(text)
    if quantity is not None:
        return quantity.unit.is_given
    words = re.search(r"\\(?:text|mathrm)\s*\{([^{}]*)\}\s*(?:\^\{?\d\}?)?\W*\Z", text)
    named = read_unit(words[1], is_single=False) if words else None
    return (named is not None and named.is_given) or re.search(
        r"\\circ\s*\}?\W*\Z|\\?%\W*\Z", text
    ) is not None


def read_unit_behind(text: str) -> str:
    """Return the known unit that the words behind a box begin with; "" for other words and for a unit not known."""
    said = text[:_LONGEST].partition("\n")[0]
    for pattern, plain in _TYPESETTING:
        said = pattern.sub(plain, said)
    said = re.sub(r"\A[\s}]*(?:-(?=[a-z]))?", "", said)
    if _PERMILLE.match(said):
        return "per thousand"
    clause = _CLAUSE_END.split(said, maxsplit=1)[0]
    tokens = [token[0] for token in _TOKEN.finditer(clause)]
    for count in range(min(len(tokens), 5), 0, -1):
        name, following = " ".join(tokens[:count]), tokens[count] if count < len(tokens) else ""
        if _is_known(tokens[:count]) and not (following and tokens[count - 1] in _WORDS):
            return "" if following.lower() in _MORE or following.startswith(("/", "^", "-", "·")) else name
    return ""


def _is_known(tokens: list[str]) -> bool:
    parts = [part for token in tokens for part in re.split(r"\s*/\s*", re.sub(r"\^-?\d", "", token))]
    whole: Unit | None = read_unit(" ".join(tokens), is_single=False)
    is_phrase = " ".join(tokens).lower() in (
        "per cent",
        "degrees celsius",
        "degrees fahrenheit",
        "degrees c",
        "degrees f",
    )
    is_each = (
        all(part.lower() in _JOINS or find_unit(part) is not None for part in parts)
        and parts[-1].lower() not in _JOINS
    )
    return whole is not None and whole.is_given and (is_phrase or (is_each and "in" not in parts[:-1]))
