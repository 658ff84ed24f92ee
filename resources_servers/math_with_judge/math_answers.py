r"""The structure of a mathematical answer: words, a value, a numeral of a base, a collection, or a relation.

Only the parts without structure are parsed as formulas, so that nothing around them is dropped: `\neq 5` is a relation
and not 5, `(1, 2)` is a pair and not the set of its members, `101_2` is not 101.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from nemo_gym.verify.notation import FUNCTION_NAMES, is_same_spelling, normalize_spelling
from nemo_gym.verify.numbers import Quantity, read_quantity
from nemo_gym.verify.typesetting import strip_text_command, strip_typesetting
from nemo_gym.verify.units import DEGREE, NO_UNIT, Unit, find_unit, read_unit
from resources_servers.math_with_judge.brackets import blank_brackets, is_one_bracket, split_outside_brackets
from resources_servers.math_with_judge.math_names import (
    drop_domains,
    is_name,
    is_statement,
    names_one_value,
    split_modulus,
    write_both_signs,
    write_out_modulus,
)
from resources_servers.math_with_judge.math_words import (
    Time,
    Words,
    is_identifier,
    read_named_value,
    read_time,
    read_words,
)
from resources_servers.math_with_judge.restatements import split_restatement

MAX_MEMBERS = 50


class Unstructured(ValueError):
    """A text whose structure is not known: it equals the same text only."""


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
    conjunction: str = ""
    """"and" or "or" between statements, which makes the list one statement; empty for a list of results."""

    @property
    def has_order(self) -> bool:
        return self.marks not in ("{}", ",", "u")

    @property
    def is_interval(self) -> bool:
        return self.marks in ("()", "[]", "[)", "(]") and len(self.members) == 2


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
class Rounded:
    """An exact value followed by its approximation, which has to agree."""

    exact: Value
    rounded: Value


@dataclass(frozen=True, slots=True)
class Relation:
    """Any other relation of two expressions."""

    operator: str
    left: str
    right: str


Answer = Words | Value | Numeral | Collection | Labelled | Claims | Rounded | Relation | Time


def read_answer(text: str) -> Answer:
    """Return the structure of `text`. Raises Unstructured."""
    text = strip_typesetting(text)
    quantity = read_quantity(text)
    if quantity is not None:
        return Value(normalize_spelling(text), quantity, quantity.unit)
    if (statements := split_restatement(text)) is not None:
        return Claims(tuple(map(read_answer, statements)))
    if (residue := split_modulus(text)) is not None:
        return Labelled(residue[1], read_answer(residue[0]))
    named = read_named_value(text)
    if named is not None:
        return _read(named, 0)
    answer = read_time(text) or _read_measured(text) or read_words(text)
    if answer is not None:
        return answer
    inner = strip_text_command(text)
    return _read(write_out_modulus(normalize_spelling(text)), 0) if inner == text else read_answer(inner)


def _read(text: str, depth: int) -> Answer:
    if depth > MAX_MEMBERS:
        raise Unstructured("it is nested too deep")
    text = strip_typesetting(text)
    inner = strip_text_command(text)
    if inner != text:
        return read_words(text) or _read(inner, depth + 1)
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
    """Return a plain number, a numeral of a base, or a date or another number that is not computed."""
    if is_identifier(text):
        return Words(text)
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


_SEPARATORS = re.compile(
    r"[,;]|\\(?:text|mathrm)\s*\{\s*(?:,?\s*or|,?\s*and|,)\s*\}|(?<![a-zA-Z\\])(?:or|and)(?![a-zA-Z])"
    r"|\\(?:lor|vee|land|wedge)(?![a-zA-Z])"
)


def _read_list(text: str, depth: int) -> Answer | None:
    parts = drop_domains([part for part in split_outside_brackets(text, _SEPARATORS) if part])
    if len(parts) < 2:
        return None if not parts or parts[0] == text else _read(parts[0], depth)
    if len(parts) > MAX_MEMBERS:
        raise Unstructured("it has too many members")
    members = tuple(member for part in parts for member in _read_members(part, depth))
    marks = {
        re.sub(r"[^a-z]|text|mathrm", "", mark[0]) for mark in _SEPARATORS.finditer(blank_brackets(text))
    }
    conjunctions = {_CONJUNCTIONS.get(mark, mark) for mark in marks - {""}}
    is_one = bool(marks & _CONJUNCTIONS.keys()) or all(map(is_statement, parts))
    joined = _join_inequalities(members, marks - {""})
    if joined is None and is_one and len(conjunctions) > 1:
        raise Unstructured("it joins statements in two ways")
    return joined or Collection(",", members, conjunctions.pop() if is_one and conjunctions else "")


def _read_members(part: str, depth: int) -> Sequence[Answer]:
    r"""Return what one part of a list names: `\pm 1` two members, any other part one."""
    answer = _read(part, depth)
    value = answer.value if isinstance(answer, Labelled) else answer
    if not (_SIGNS.search(part) and isinstance(value, Collection) and value.marks == ","):
        return (answer,)
    return [Labelled(answer.label, one) if isinstance(answer, Labelled) else one for one in value.members]


_CONJUNCTIONS = {"land": "and", "wedge": "and", "lor": "or", "vee": "or"}


def _join_inequalities(members: Sequence[Answer], conjunctions: Set[str]) -> Labelled | None:
    """Return the union (`x<1 or x>4`) or the intersection (`x>1 and x<4`) of intervals of one name."""
    intervals = [member.value for member in members if isinstance(member, Labelled)]
    labels = {member.label for member in members if isinstance(member, Labelled)}
    parts = [part for part in intervals if isinstance(part, Collection) and part.is_interval]
    if len(parts) != len(members) or len(labels) != 1:
        return None
    if conjunctions and conjunctions <= {"or", "lor", "vee"}:
        return Labelled(labels.pop(), Collection("u", tuple(parts)))
    lower = [part for part in parts if part.members[1] == _INFINITY]
    upper = [part for part in parts if part.members[0] == _MINUS_INFINITY]
    if (
        conjunctions
        and conjunctions <= {"and", "land", "wedge"}
        and len(lower) == len(upper) == 1 == len(parts) - 1
    ):
        marks, ends = lower[0].marks[0] + upper[0].marks[1], (lower[0].members[0], upper[0].members[1])
        return Labelled(labels.pop(), Collection(marks, ends))
    return None


_OPERATORS = re.compile(
    r"\\(?:not\s*=|neq|le|ge|approx|equiv|in|notin|to|sim|simeq|cong|subseteq|subset|mid|implies|iff|propto|perp"
    r"|parallel|Rightarrow|Leftrightarrow)(?![a-zA-Z])|[<>=]"
)
_MIRRORED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}


def _read_relation(text: str, depth: int) -> Answer | None:
    operators = [match[0] for match in _OPERATORS.finditer(blank_brackets(text))]
    if not operators:
        return None
    parts = split_outside_brackets(text, _UNION)
    if len(parts) > 1 and all(_OPERATORS.search(blank_brackets(part)) for part in parts):
        return _join_inequalities(tuple(_read(part, depth) for part in parts), {"or"})
    sides = split_outside_brackets(text, _OPERATORS)
    if operators[-1] == "\\approx" and set(operators[:-1]) <= {"="} and not is_name(sides[-2]) and sides[-2]:
        return _read_rounded(sides, depth)
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
    if _is_named(sides[-1]) and not _is_named(sides[0]):
        sides = sides[::-1]
    if is_name(sides[0]) or (len(sides) > 2 and names_one_value(sides[0])):
        stated = [side for side in sides[1:-1] if not is_name(side)]
        rest = tuple(_read(side, depth) for side in (*stated, sides[-1]))
        return Labelled(sides[0], rest[0] if len(rest) == 1 else Claims(rest))
    has_names = re.search(r"[a-zA-Z]", re.sub(r"\\[a-zA-Z]+|\{[a-z]+\}", "", "".join(sides)))
    if len(sides) == 2 and (has_names or any(map(_is_named, sides))):
        return Relation("=", *sides)
    return Claims(tuple(_read(side, depth) for side in sides))


def _read_rounded(sides: list[str], depth: int) -> Answer:
    r"""Return the exact value and its approximation: `\frac{1}{3} \approx 0.333`, also with a name before it."""
    exact, rounded = _read(sides[-2], depth), _read(sides[-1], depth)
    if not (isinstance(exact, Value) and isinstance(rounded, Value) and rounded.quantity) or "/" in sides[-1]:
        return _read_equation(sides, depth)
    value = Rounded(exact, rounded)
    if len(sides) == 2:
        return value
    if len(sides) == 3 and _is_named(sides[0]):
        return Labelled(sides[0], value)
    return _read_equation(sides, depth)


def _is_named(side: str) -> bool:
    return is_name(side) or names_one_value(side)


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
        return Labelled(label, Collection("()" if operator == "<" else "(]", (_MINUS_INFINITY, end)))
    return Labelled(label, Collection("()" if operator == ">" else "[)", (end, _INFINITY)))


def read_complement(relation: Relation) -> Collection | None:
    r"""Return the union of intervals that `x \neq 5` states, None for another relation."""
    if relation.operator != "\\neq" or not (not relation.left or is_name(relation.left)):
        return None
    bound = _read(relation.right, 0)
    return Collection("u", (Collection("()", (_MINUS_INFINITY, bound)), Collection("()", (bound, _INFINITY))))


_MINUS_INFINITY, _INFINITY = Value("-\\infty"), Value("\\infty")
_CONSTANT_SETS = {
    "\\mathbb{R}": Collection("()", (_MINUS_INFINITY, _INFINITY)),
    "\\emptyset": Collection("{}", ()),
    "\\{\\}": Collection("{}", ()),
    "\\{ \\}": Collection("{}", ()),
}
_ALL_BUT = re.compile(
    r"\\mathbb\{R\}\s*(?:\\setminus|\\backslash|\\|-)\s*\\\{(?P<point>[^,;{}]*(?:\{[^{}]*\}[^,;{}]*)*)\\\}"
)


def _read_constant_set(text: str, depth: int) -> Answer | None:
    all_but = _ALL_BUT.fullmatch(text)
    if all_but is not None:
        return read_complement(Relation("\\neq", "", all_but["point"]))
    return _CONSTANT_SETS.get(text.strip())


_BRACKETED = re.compile(r"(?P<open>\(|\[|\\\{)(?P<inner>.*)(?P<close>\)|\]|\\\})", re.DOTALL)


def _read_bracketed(text: str, depth: int) -> Answer | None:
    match = _BRACKETED.fullmatch(text)
    if match is None or not is_one_bracket(text):
        return None
    marks = match["open"][-1] + match["close"][-1]
    condition = _CONDITION.search(blank_brackets(match["inner"])) if marks == "{}" else None
    if condition is not None:
        return _read_such_that(match["inner"][: condition.start()], match["inner"][condition.end() :], depth)
    parts = split_outside_brackets(match["inner"], _SEPARATORS)
    if marks == "()" and len(parts) == 1:
        return _read(parts[0], depth)
    if marks not in ("()", "[]", "[)", "(]", "{}") or len(parts) > MAX_MEMBERS or not all(parts):
        raise Unstructured("its brackets hold no members")
    read = _read_members if marks == "{}" else lambda part, depth: (_read(part, depth),)
    return Collection(marks, tuple(member for part in parts for member in read(part, depth)))


_CONDITION = re.compile(r"\\mid(?![a-zA-Z])|[|:]")
_ELEMENT = re.compile(r"(?P<name>[^\\]+?|\\[a-zA-Z]+)\s*(?:\\in\s*(?:\\mathbb\{R\}|R))?")


def _read_such_that(element: str, condition: str, depth: int) -> Answer:
    """Return the values that `{x | condition}` names: as the condition alone does."""
    match = _ELEMENT.fullmatch(element.strip())
    stated = _read(condition.strip(), depth)
    members = stated.members if isinstance(stated, Collection) and stated.marks == "," else (stated,)
    for member in members:
        name = member.left if isinstance(member, Relation) else ""
        name = member.label if isinstance(member, Labelled) else name
        if match is None or not is_same_spelling(name.strip(), match["name"].strip()):
            raise Unstructured("it is a set of other elements")
    return stated


_UNION, _RATIO = re.compile(r"\\cup(?![a-zA-Z])"), re.compile(r":")
_SIGNS = re.compile(r"\\[pm]{2}(?![a-zA-Z])")


def _read_union(text: str, depth: int) -> Answer | None:
    for marks, pattern in (("u", _UNION), (":", _RATIO)):
        parts = split_outside_brackets(text, pattern)
        if len(parts) > 1:
            if len(parts) > MAX_MEMBERS or not all(parts):
                raise Unstructured("a member is missing")
            return Collection(marks, tuple(_read(part, depth) for part in parts))
    if _SIGNS.search(text):
        return Collection(",", tuple(_read(part, depth) for part in write_both_signs(text)))
    return None


_TRAILING_UNIT = re.compile(
    r"(?P<value>.*\S)\s*(?:\\(?:text|mathrm)\s*\{(?P<typeset>[^{}]*)\}|(?<=[\s})\d])(?P<plain>[a-zA-Z]{2,}))"
    r"(?P<power>\^\{?[23]\}?)?",
    re.DOTALL,
)
_DEGREES = re.compile(
    r"(?P<value>(?:\\(?:frac|pi|cdot|sqrt|theta|alpha|beta)(?![a-zA-Z])|[^\\a-zA-Z]|[a-zA-Z](?![a-zA-Z]))*"
    r"(?:[})a-zA-Z]|\\pi))\s*\^\{\\circ\}"
)


def _read_formula(text: str) -> Value:
    degrees = _DEGREES.fullmatch(text)
    if degrees is not None and not re.search(r".[+-]", blank_brackets(degrees["value"])):
        return Value(degrees["value"], unit=DEGREE)
    match = _TRAILING_UNIT.fullmatch(text)
    if match is not None and match["value"].strip() not in ("", "-", "+"):
        name = match["typeset"] if match["typeset"] is not None else match["plain"]
        power = (match["power"] or "").strip("^{}")
        is_name_of_unit = match["typeset"] is not None or name not in FUNCTION_NAMES
        unit = read_unit(f"{name.strip()}{power}", is_single=False) if is_name_of_unit else None
        if unit is not None:
            return replace(_read_formula(match["value"].strip()), unit=unit)
    return Value(text)


_MEASURED = re.compile(r"(?P<value>.*[^\sa-zA-Z].*\S)\s+(?P<unit>[a-zA-Z]{4,})", re.DOTALL)


def _read_measured(text: str) -> Value | None:
    r"""Return a formula with the name of a unit behind it, `4\pi inches`. Other words make words of the whole."""
    match = _MEASURED.fullmatch(text)
    if match is None or find_unit(match["unit"]) is None or read_words(match["value"]) is not None:
        return None
    return _read_formula(normalize_spelling(text))
