r"""The structure of a mathematical answer: words, a value, a numeral of a base, a collection, or a relation.

Only the parts without structure are parsed as formulas, so that nothing around them is dropped: `\neq 5` is a relation
and not 5, `(1, 2)` is a pair and not the set of its members, `101_2` is not 101.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from nemo_gym.verify._notation import FUNCTION_NAMES, spelled
from nemo_gym.verify.answers import strip_math_marks
from nemo_gym.verify.numbers import Quantity, read_quantity
from nemo_gym.verify.units import NO_UNIT, Unit, read_unit

MAX_MEMBERS = 50


class Unstructured(ValueError):
    """A text whose structure is not known: it equals the same text only."""


@dataclass(frozen=True, slots=True)
class Words:
    """A text that is no formula. As one, "east" would be a product that equals "seat"."""

    text: str
    is_short: bool = False
    """True if no word has four letters, so that the text may be a product of letters too."""


@dataclass(frozen=True, slots=True)
class Value:
    """An expression, in the spelling of `_notation`, and its unit."""

    text: str
    quantity: Quantity | None = None
    """Set if the expression is a plain number."""
    unit: Unit = NO_UNIT


@dataclass(frozen=True, slots=True)
class Numeral:
    """A whole number in the notation of a base other than ten."""

    value: int
    base: int


@dataclass(frozen=True, slots=True)
class Collection:
    r"""Members between marks: `()`, `[]`, `[)`, `(]`, `{}`, `,` for a bare list, `:` for a ratio, `u` for a union."""

    marks: str
    members: tuple[Answer, ...]

    @property
    def has_order(self) -> bool:
        return self.marks not in ("{}", ",", "u")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A value with the name that an equation gives it: `x = 5`, `x > 5` as an interval."""

    label: str
    value: Answer


@dataclass(frozen=True, slots=True)
class Claims:
    """A chain of equal expressions, `1 + 1 = 2`, which states its last member if all are equal."""

    members: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """Any other relation of two expressions."""

    operator: str
    left: str
    right: str


Answer = Words | Value | Numeral | Collection | Labelled | Claims | Relation


def read_answer(text: str) -> Answer:
    """Return the structure of `text`. Raises Unstructured."""
    text = strip_math_marks(text)
    quantity = read_quantity(text)
    if quantity is not None:
        return Value(spelled(text), quantity, quantity.unit)
    words = read_words(text)
    if words is not None:
        return words
    return _read(spelled(text), 0)


def _read(text: str, depth: int) -> Answer:
    if depth > MAX_MEMBERS:
        raise Unstructured("it is nested too deep")
    for read in (_read_value, _read_list, _read_relation, _read_constant_set, _read_bracketed, _read_union):
        answer = read(text, depth + 1)
        if answer is not None:
            return answer
    return _read_formula(text)


_NUMERAL = re.compile(
    r"\(?(?:\\(?:text|mathrm)\{)?(?P<digits>[0-9A-Z]*\d[0-9A-Z]*|[A-F]{2,}(?=[\W_]*16\W*$))\}?\)?\s*"
    r"_\s*\{?\s*(?:\\(?:text|mathrm)\{)?\(?\s*(?P<base>\d{1,2}|[a-z]{3,11})\s*\)?\}*"
)
_BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
          "twelve": 12, "sixteen": 16}  # fmt: skip


def _read_value(text: str, depth: int) -> Answer | None:
    """Return a plain number, or a numeral of a base."""
    quantity = read_quantity(text)
    if quantity is not None:
        return Value(text, quantity, quantity.unit)
    numeral = _NUMERAL.fullmatch(text)
    if numeral is None:
        return None
    base = int(numeral["base"]) if numeral["base"].isdigit() else _BASES.get(numeral["base"], 0)
    with contextlib.suppress(ValueError):
        if base > 1:
            return Numeral(int(numeral["digits"], base), base)
    raise Unstructured("it is no numeral of its base")


_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_TOKEN = re.compile(r"\\[{}]|\\(?:text|mathrm|mbox)\s*\{[^{}]*\}|\\[a-zA-Z]+|\\.|.", re.DOTALL)
_SEPARATORS = re.compile(
    r"[,;]|\\(?:text|mathrm|mbox)\s*\{\s*(?:,?\s*or|,?\s*and|,)\s*\}|(?<![a-zA-Z\\])(?:or|and)(?![a-zA-Z])"
)


def _outside(text: str) -> str:
    """Return `text` with everything inside brackets replaced by spaces, of the same length."""
    kept, depth = [], 0
    for token in _TOKEN.finditer(text):
        part = token[0]
        mark = part[-1] if part in ("\\{", "\\}") or len(part) == 1 else ""
        if mark in _CLOSING and mark:
            depth = max(0, depth - 1)
        kept.append(part if depth == 0 else " " * len(part))
        if mark in _OPENING and mark:
            depth += 1
    return "".join(kept)


def _split(text: str, marks: re.Pattern[str]) -> list[str]:
    """Split `text` at `marks` outside of brackets."""
    parts, start = [], 0
    for mark in marks.finditer(_outside(text)):
        parts.append(text[start : mark.start()].strip())
        start = mark.end()
    return [*parts, text[start:].strip()]


def _read_list(text: str, depth: int) -> Answer | None:
    parts = [part for part in _split(text, _SEPARATORS) if part]
    if len(parts) < 2:
        return None if not parts or parts[0] == text else _read(parts[0], depth)
    if len(parts) > MAX_MEMBERS:
        raise Unstructured("it has too many members")
    return Collection(",", tuple(_read(part, depth) for part in parts))


_OPERATORS = re.compile(
    r"\\(?:not\s*=|neq|le|ge|approx|equiv|in|notin|to|sim|simeq|cong|subseteq|subset|mid|implies|iff|propto|perp"
    r"|parallel|Rightarrow|Leftrightarrow)(?![a-zA-Z])|[<>=]"
)
_MIRRORED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}
_NAME = re.compile(
    r"(?:m\s*)?(?:\\(?:angle|overline|vec|text|mathrm|operatorname|Delta|triangle)\s*)*\{?"
    r"(?:\\[a-zA-Z]+|[a-zA-Z]{1,3}|(?<=\{)[a-zA-Z ]+)\}?(?:_\{?\w{1,5}\}?)?'*\s*(?:\\cdot)?\s*(?:\([^()=<>]{0,20}\))?"
)


def is_name(text: str) -> bool:
    """Return whether `text` names a quantity: a variable, an index, a function of something, a segment."""
    return _NAME.fullmatch(text.strip()) is not None and spelled(text).strip() not in _CONSTANTS


_CONSTANTS = frozenset({"\\pi", "e", "i", "\\infty", "\\emptyset"})


def _read_relation(text: str, depth: int) -> Answer | None:
    operators = [match[0] for match in _OPERATORS.finditer(_outside(text))]
    if not operators:
        return None
    sides = _split(text, _OPERATORS)
    if set(operators) <= {"=", "\\approx"}:
        return _read_equation(sides, depth)
    if operators == ["\\in"]:
        if not is_name(sides[0]):
            raise Unstructured("it states a membership")
        return Labelled(sides[0], _read(sides[1], depth))
    interval = _read_inequality(sides, operators, depth)
    if interval is not None:
        return interval
    if len(operators) > 1 or not sides[1]:
        raise Unstructured("it is a chain of relations")
    return Relation(operators[0], sides[0], sides[1])


def _read_equation(sides: list[str], depth: int) -> Answer:
    if len(sides) == 2 and not sides[0]:
        return _read(sides[1], depth)
    if not all(sides):
        raise Unstructured("a side of the equation is missing")
    if is_name(sides[-1]) and not is_name(sides[0]):
        sides = sides[::-1]
    if is_name(sides[0]):
        rest = tuple(_read(side, depth) for side in sides[1:])
        return Labelled(sides[0], rest[0] if len(rest) == 1 else Claims(rest))
    if re.search(r"[a-zA-Z]", re.sub(r"\\[a-zA-Z]+|\{[a-z]+\}", "", "".join(sides))) and len(sides) == 2:
        return Relation("=", *sides)
    return Claims(tuple(_read(side, depth) for side in sides))


def _read_inequality(sides: list[str], operators: list[str], depth: int) -> Answer | None:
    """Return the interval of a named value; a missing name is the empty label."""
    if not set(operators) <= _MIRRORED.keys():
        return None
    if len(sides) == 2:
        left, right = sides
        operator = operators[0]
        if right and not left:
            return _half_line("", operator, right, depth)
        if is_name(left) and not is_name(right) and right:
            return _half_line(left, operator, right, depth)
        if is_name(right) and not is_name(left) and left:
            return _half_line(right, _MIRRORED[operator], left, depth)
        return None
    if len(sides) != 3 or not all(sides) or not is_name(sides[1]):
        return None
    if operators[0] in (">", "\\ge"):
        sides, operators = sides[::-1], [_MIRRORED[operator] for operator in reversed(operators)]
    if not set(operators) <= {"<", "\\le"}:
        return None
    marks = ("(" if operators[0] == "<" else "[") + (")" if operators[1] == "<" else "]")
    return Labelled(sides[1], Collection(marks, (_read(sides[0], depth), _read(sides[2], depth))))


def _half_line(label: str, operator: str, bound: str, depth: int) -> Answer:
    end = _read(bound, depth)
    if operator in ("<", "\\le"):
        return Labelled(label, Collection("()" if operator == "<" else "(]", (Value("-\\infty"), end)))
    return Labelled(label, Collection("()" if operator == ">" else "[)", (end, Value("\\infty"))))


_CONSTANT_SETS = {
    "\\mathbb{R}": Collection("()", (Value("-\\infty"), Value("\\infty"))),
    "\\emptyset": Collection("{}", ()),
    "\\{\\}": Collection("{}", ()),
    "\\{ \\}": Collection("{}", ()),
}


def _read_constant_set(text: str, depth: int) -> Answer | None:
    return _CONSTANT_SETS.get(text.strip())


_BRACKETED = re.compile(r"(?P<open>\(|\[|\\\{)(?P<inner>.*)(?P<close>\)|\]|\\\})", re.DOTALL)


def _read_bracketed(text: str, depth: int) -> Answer | None:
    match = _BRACKETED.fullmatch(text)
    if match is None or not _is_one_bracket(text):
        return None
    marks = match["open"][-1] + match["close"][-1]
    parts = _split(match["inner"], _SEPARATORS)
    if marks == "()" and len(parts) == 1:
        return _read(parts[0], depth)
    if marks not in ("()", "[]", "[)", "(]", "{}") or len(parts) > MAX_MEMBERS or not all(parts):
        raise Unstructured("its brackets hold no members")
    return Collection(marks, tuple(_read(part, depth) for part in parts))


def _is_one_bracket(text: str) -> bool:
    """Return whether the first bracket closes at the end of `text`."""
    outside = _outside(text)
    return not outside.removeprefix("\\")[1:-1].removesuffix("\\").strip()


_UNION, _RATIO, _SIGNS = (
    re.compile(r"\\cup(?![a-zA-Z])"),
    re.compile(r":"),
    re.compile(r"\\[pm]{2}(?![a-zA-Z])"),
)


def _read_union(text: str, depth: int) -> Answer | None:
    for marks, pattern in (("u", _UNION), (":", _RATIO)):
        parts = _split(text, pattern)
        if len(parts) > 1:
            if len(parts) > MAX_MEMBERS or not all(parts):
                raise Unstructured("a member is missing")
            return Collection(marks, tuple(_read(part, depth) for part in parts))
    if _SIGNS.search(text):
        return Collection(",", tuple(_read(part, depth) for part in _both_signs(text)))
    return None


def _both_signs(text: str) -> Iterator[str]:
    for upper, lower in (("+", "-"), ("-", "+")):
        signed = re.sub(r"\\pm(?![a-zA-Z])", upper, text)
        yield re.sub(r"\\mp(?![a-zA-Z])", lower, signed).lstrip("+ ")


_TRAILING_UNIT = re.compile(
    r"(?P<value>.*\S)\s*(?:\\(?:text|mathrm|mbox|textrm|rm)\s*\{(?P<typeset>[^{}]*)\}|(?<=[\s})\d])(?P<plain>[a-zA-Z]{2,}))"
    r"(?P<power>\^\{?[23]\}?)?",
    re.DOTALL,
)


def _read_formula(text: str) -> Value:
    match = _TRAILING_UNIT.fullmatch(text)
    if match is not None and match["value"].strip() not in ("", "-", "+"):
        name = match["typeset"] if match["typeset"] is not None else match["plain"]
        power = (match["power"] or "").strip("^{}")
        is_name_of_unit = match["typeset"] is not None or name not in FUNCTION_NAMES
        unit = read_unit(f"{name.strip()}{power}") if is_name_of_unit else None
        if unit is not None:
            return replace(_read_formula(match["value"].strip()), unit=unit)
    return Value(text)


_TEXT_BLOCK = re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_COMMAND = re.compile(r"\\(?:begin|end)\s*\{[a-zA-Z*]+\}|\\[a-zA-Z]+")
_RUN = re.compile(r"[^\W\d_]{2,}")
_FREE_RUN = re.compile(r"(?<!\S)[^\W\d_]{3}(?![^\s.,;:!?])")
_LETTERS_ONLY = re.compile(r"[^\W\d_][^\W\d_\s.,;:!?'’-]*(?:[\s.,;:!?'’-]+[^\W\d_]+)*[\s.,;:!?'’-]*")
_LONG = 4
_NO_WORDS = FUNCTION_NAMES | {"and", "or", "mod", "bmod", "pmod"}


def read_words(text: str) -> Words | None:
    r"""Return `text` as words; None when it is a formula.

    A run of four letters is a word, unless it names a function; so are shorter runs in a text of letters only, and
    three letters between spaces. Words in `\text{…}` count only when the text has nothing else: beside a formula they
    are a unit or a conjunction.
    """
    beside_text = _TEXT_BLOCK.sub(" ", text)
    has_formula = re.search(r"\w", _COMMAND.sub(" ", beside_text)) or "\\" in beside_text
    plain = beside_text if has_formula else unwrapped(text)
    formula = _COMMAND.sub(" ", plain)
    words = [run for run in _RUN.findall(formula) if run not in _NO_WORDS and not _is_alphabet(run)]
    if any(len(word) >= _LONG for word in words):
        return Words(unwrapped(text))
    is_letters = not has_formula or "\\" not in plain
    if words and is_letters and _LETTERS_ONLY.fullmatch(formula.strip()):
        return Words(unwrapped(text), is_short=True)
    free = [run for run in _FREE_RUN.findall(formula) if run in words]
    return Words(unwrapped(text), is_short=True) if free and not re.search(r"[=<>+*/^]", formula) else None


def unwrapped(text: str) -> str:
    r"""Return `text` without `\text{…}` and similar commands around its words."""
    return _TEXT_BLOCK.sub(r"\1", text)


def _is_alphabet(run: str) -> bool:
    """Return whether a run of three letters or more is alphabetical, as variables are: "xyz"."""
    return len(run) > 2 and all(ord(after) - ord(before) == 1 for before, after in pairwise(run))
