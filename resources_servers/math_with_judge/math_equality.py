r"""Equality of mathematical answers.

`compare` decides in two steps:

    same spelling, or both are quantities     `70,000` and `\$70000`               on the event loop, microseconds
    structure, then formulas                  `\frac{x^2-1}{x-1}` and `x+1`        in a worker, milliseconds

Where equality is not decided (`Rejection.UNDECIDED`), the answer is not accepted. The verdict is symmetric, and the
same on every call and every machine. An answer that takes too much CPU time or memory is not accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from typing import Any, NamedTuple

from nemo_gym.processes.workers import WorkerPool
from nemo_gym.verify.answer_faults import AnswerFault, score_in_worker
from nemo_gym.verify.matching import normalize
from nemo_gym.verify.notation import is_same_spelling, normalize_spelling
from nemo_gym.verify.numbers import MAX_CHARS, MAX_EXPONENT, Quantity, is_same_quantity, read_quantity
from nemo_gym.verify.typesetting import strip_typesetting
from nemo_gym.verify.units import DEGREE, PERCENT, RADIAN, are_comparable
from resources_servers.math_with_judge.formulas import Decision, decide, decide_relations, is_rounded_to
from resources_servers.math_with_judge.math_answers import (
    Answer,
    Claims,
    Collection,
    Labelled,
    Numeral,
    Relation,
    Rounded,
    Unstructured,
    Value,
    read_answer,
    read_complement,
)
from resources_servers.math_with_judge.math_names import name_free_integer, names_one_value
from resources_servers.math_with_judge.math_words import Time, Words, affirms, write_date

TIMEOUT_S = 10.0
IMPORTS = ("math_verify", "latex2sympy2_extended.latex2sympy2")

MAX_ANSWER_CHARS = 2_000
MAX_ANSWER_DEPTH = 10
"""An answer that is longer or nested deeper equals only the same text, unless the expected answer exceeds the limit
too: the time to parse a formula grows exponentially with its depth."""
MAX_DIGITS_OF_DECIMAL = MAX_CHARS + 2 * MAX_EXPONENT

_CONTROL = "x+1"
"""The harmless answer that decides whether the expected answer is at fault."""


class Rejection(StrEnum):
    """The reason why an answer is not accepted, other than a fault (`nemo_gym.verify.answer_faults`)."""

    NO_ANSWER = "no_answer"
    DIFFERENT = "different"
    UNDECIDED = "undecided"
    """The answers may be equal, or one of them is not understood."""
    TOO_LONG = "too_long"
    """The answer is longer or nested deeper than what is read."""


class Equality(NamedTuple):
    """The verdict on an answer."""

    is_equal: bool
    reason: str | None = None
    """A `Rejection`, or the kind of an `AnswerFault`; None if the answers are equal."""


_EQUAL = Equality(True)
_OF_DECISION = {
    Decision.EQUAL: _EQUAL,
    Decision.DIFFERENT: Equality(False, Rejection.DIFFERENT),
    Decision.UNDECIDED: Equality(False, Rejection.UNDECIDED),
}


async def is_equal(
    expected: str, answer: str, *, timeout_s: float = TIMEOUT_S, pool: WorkerPool | None = None
) -> bool:
    """Return whether `answer` is mathematically equal to `expected`; see `compare`."""
    return (await compare(expected, answer, timeout_s=timeout_s, pool=pool)).is_equal


async def compare(
    expected: str, answer: str, *, timeout_s: float = TIMEOUT_S, pool: WorkerPool | None = None
) -> Equality:
    """Compare `answer` with `expected`. Raises VerifierError only for a failure of the machine."""
    verdict = compare_plainly(expected, answer)
    if verdict is not None:
        return verdict
    decided = await score_in_worker(
        compare_structures,
        expected,
        answer,
        control=(expected, _CONTROL),
        timeout_s=timeout_s,
        imports=IMPORTS,
        pool=pool,
    )
    return Equality(False, decided.kind) if isinstance(decided, AnswerFault) else decided


def compare_plainly(expected: str, answer: str) -> Equality | None:
    """Return the verdict when neither text has to be parsed as a formula, else None."""
    if len(answer) > max(MAX_ANSWER_CHARS, len(expected)):
        return Equality(False, Rejection.TOO_LONG)
    expected, answer = strip_typesetting(expected), strip_typesetting(answer)
    if not expected or not answer:
        return Equality(False, Rejection.NO_ANSWER)
    if is_same_spelling(expected, answer):
        return _EQUAL
    wanted, given = read_quantity(expected), read_quantity(answer)
    if wanted is not None and given is not None:
        return _EQUAL if is_same_quantity(wanted, given) else _OF_DECISION[Decision.DIFFERENT]
    is_too_deep = _depth(answer) > max(MAX_ANSWER_DEPTH, _depth(expected))
    return Equality(False, Rejection.TOO_LONG) if is_too_deep else None


def compare_structures(expected: str, answer: str) -> Equality:
    """Compare two answers by their structure. Runs in a worker."""
    if is_same_spelling(normalize_spelling(expected), normalize_spelling(answer)):
        return _EQUAL
    expected, answer = name_free_integer(expected), name_free_integer(answer)
    try:
        return _OF_DECISION[_compare(read_answer(expected), read_answer(answer))]
    except Unstructured:
        return _OF_DECISION[Decision.UNDECIDED]


def _compare(one: Answer, other: Answer) -> Decision:
    for first, second in ((one, other), (other, one)):
        if isinstance(first, Labelled | Claims):
            return _compare_stated(first, second)
    for kind, compare_kind in _COMPARISONS:
        for first, second in ((one, other), (other, one)):
            if isinstance(first, kind):
                return compare_kind(first, second)
    assert isinstance(one, Value)
    assert isinstance(other, Value)
    return _compare_values(one, other)


def _compare_stated(stated: Labelled | Claims, other: Answer) -> Decision:
    """Compare the value of an equation, whose members must all be equal."""
    if isinstance(stated, Claims):
        last = stated.members[-1]
        if any(_compare(member, last) is not Decision.EQUAL for member in stated.members[:-1]):
            return Decision.DIFFERENT
        measured = [one for one in stated.members[:-1] if isinstance(one, Value) and one.unit.is_given]
        return _find_member(other, [last, *measured])
    if not isinstance(other, Labelled):
        if isinstance(other, Relation) and isinstance(stated.value, Value):
            return _compare_relations(Relation("=", stated.label, stated.value.text), other)
        return _compare(stated.value, other)
    if not stated.label or not other.label or is_same_spelling(stated.label, other.label):
        return _compare(stated.value, other.value)
    if isinstance(stated.value, Value) and isinstance(other.value, Value):
        return decide_relations("=", (stated.label, stated.value.text), (other.label, other.value.text))
    return Decision.DIFFERENT


_SHORT_WORDS = frozenset((
    "yes", "no", "odd", "on", "off", "all", "any", "one", "two", "six", "ten", "sum", "set", "low", "mid", "top", "red",
    "dne",
))  # fmt: skip
"""Words whose case means nothing. Other short words may be products of letters, as `AB` and `ab`."""


_ARTICLE = re.compile(r"(?:an?|the)\s+(?=\w{4})")


def _compare_words(words: Words, other: Answer) -> Decision:
    if not isinstance(other, Words):
        if words.is_short and isinstance(other, Value) and not re.search(r"\s", words.text.strip()):
            return decide(normalize_spelling(words.text), other.text)
        return Decision.DIFFERENT
    wanted, given = (write_date(_ARTICLE.sub("", normalize(side.text))) for side in (words, other))
    if affirms(wanted, given) or affirms(given, wanted):
        return Decision.EQUAL
    if not (words.is_short and other.is_short) or words.text == other.text:
        return Decision.EQUAL if wanted and wanted == given else Decision.DIFFERENT
    if wanted == given:
        is_word = words.is_typeset or other.is_typeset or set(wanted.split()) <= _SHORT_WORDS
        return Decision.EQUAL if is_word else Decision.UNDECIDED
    # As products of letters they may be equal, as words they are not.
    return Decision.UNDECIDED if sorted(wanted) == sorted(given) else Decision.DIFFERENT


_MIRRORED = {"<": ">", "\\le": "\\ge"}


def _compare_rounded(stated: Rounded, other: Answer) -> Decision:
    """Compare an exact value, if its approximation agrees with it; the approximation may be what is expected."""
    if isinstance(other, Rounded):
        other = other.exact
    quantity, written = stated.rounded.quantity, re.search(r"\.(\d*)", stated.rounded.text)
    assert quantity is not None
    if not is_rounded_to(stated.exact.text, quantity.value, len(written[1]) if written else 0):
        return Decision.DIFFERENT
    found = _compare(stated.exact, other)
    return found if found is Decision.EQUAL else _compare(stated.rounded, other)


def _compare_relations(relation: Relation, other: Answer) -> Decision:
    if isinstance(other, Value | Collection) and relation.operator == "=":
        for names, value in ((relation.left, relation.right), (relation.right, relation.left)):
            if names_one_value(names):
                return _compare(read_answer(value), other)
    if not isinstance(other, Relation):
        complement = (
            read_complement(relation) if isinstance(other, Collection) and other.marks == "u" else None
        )
        return _compare(complement, other) if complement else Decision.DIFFERENT
    one, two = _turn_right(relation), _turn_right(other)
    if one.operator != two.operator:
        return Decision.DIFFERENT
    if not one.left or not two.left:
        return decide(one.right, two.right)
    if is_same_spelling(one.left, two.left) and is_same_spelling(one.right, two.right):
        return Decision.EQUAL
    if one.operator in ("=", "\\neq", ">", "\\ge"):
        return decide_relations(one.operator, (one.left, one.right), (two.left, two.right))
    return Decision.UNDECIDED


def _turn_right(relation: Relation) -> Relation:
    operator = relation.operator
    if operator in _MIRRORED:
        return Relation(_MIRRORED[operator], relation.right, relation.left)
    return Relation("\\neq", relation.left, relation.right) if operator.startswith("\\not") else relation


def _compare_numerals(numeral: Numeral, other: Answer) -> Decision:
    """Compare numerals. A numeral of another base has the same value, but may restate the question."""
    if isinstance(other, Value) and other.quantity is not None and not other.unit.is_given:
        is_same = other.quantity.value == numeral.value
        base = 10
    elif isinstance(other, Numeral):
        is_same, base = other.value == numeral.value, other.base
    else:
        return Decision.DIFFERENT if isinstance(other, Collection | Words | Relation) else Decision.UNDECIDED
    if not is_same:
        return Decision.DIFFERENT
    return Decision.EQUAL if base == numeral.base else Decision.UNDECIDED


def _compare_times(time: Time, other: Answer) -> Decision:
    """Compare times of day. A time without "a.m." or "p.m." may be either, unless its hour is 0 or above 12."""
    if isinstance(other, Time):
        return Decision.EQUAL if time == other else Decision.DIFFERENT
    if not (isinstance(other, Collection) and len(other.members) == 2 and _may_be_time(other.members)):
        return Decision.DIFFERENT if isinstance(other, Collection) else Decision.UNDECIDED
    hour, minute = (int(member.text) for member in other.members if isinstance(member, Value))
    is_half_known = not 1 <= hour <= 12
    difference = time.minutes - (60 * hour + minute)
    is_same = difference == 0 if is_half_known else difference % 720 == 0
    return Decision.EQUAL if is_same else Decision.DIFFERENT


def _compare_collections(one: Collection, other: Answer) -> Decision:
    if not isinstance(other, Collection):
        if one.marks == "{}" and len(one.members) == 1:
            return _compare(one.members[0], other)
        return _compare_ratio(one, other) if one.marks == ":" else Decision.DIFFERENT
    if one.conjunction and other.conjunction and one.conjunction != other.conjunction:
        return Decision.DIFFERENT
    if not one.has_order and not other.has_order:
        is_same_kind = (one.marks == "u") == (other.marks == "u") or _are_intervals(one, other)
        return _compare_sets(one.members, other.members) if is_same_kind else Decision.DIFFERENT
    if one.marks == other.marks:
        in_order = _compare_in_order(one.members, other.members)
        is_ratio = one.marks == ":" and in_order is Decision.DIFFERENT
        return _compare_ratios(one.members, other.members) if is_ratio else in_order
    return _compare_tuple_with_list(one, other)


def _are_intervals(*collections: Collection) -> bool:
    """Return whether a list of inequalities, `x<1, x>4`, can be a union."""
    members = [
        member for collection in collections if collection.marks != "u" for member in collection.members
    ]
    labels = [member.label for member in members if isinstance(member, Labelled)]
    return len(labels) == len(members) and len(set(labels)) == 1


def _compare_tuple_with_list(one: Collection, other: Collection) -> Decision:
    """Compare `(1, 2)` with `y = 2, x = 1`, in the order of the names.

    A list without names may be a pair or two results.
    """
    if {one.marks, other.marks} != {"()", ","}:
        return Decision.DIFFERENT
    bare, bracketed = (one, other) if one.marks == "," else (other, one)
    named = {member.label: member for member in bare.members if isinstance(member, Labelled)}
    if len(named) == len(bare.members):
        return _compare_in_order([named[label] for label in sorted(named)], bracketed.members)
    found = _compare_in_order(bare.members, bracketed.members)
    return Decision.UNDECIDED if found is Decision.EQUAL else found


def _compare_in_order(one: Sequence[Answer], other: Sequence[Answer]) -> Decision:
    if len(one) != len(other):
        return Decision.DIFFERENT
    return _worst(_compare(left, right) for left, right in zip(one, other, strict=True))


def _worst(decisions: Iterator[Decision]) -> Decision:
    found = Decision.EQUAL
    for decision in decisions:
        if decision is Decision.DIFFERENT:
            return decision
        if decision is Decision.UNDECIDED:
            found = decision
    return found


def _compare_sets(one: Sequence[Answer], other: Sequence[Answer]) -> Decision:
    if Counter(one) == Counter(other):
        return Decision.EQUAL
    return _worst(
        _find_member(member, two) for members, two in ((one, other), (other, one)) for member in members
    )


def _find_member(member: Answer, members: Sequence[Answer]) -> Decision:
    found = Decision.DIFFERENT
    for candidate in members:
        decision = _compare(member, candidate)
        if decision is Decision.EQUAL:
            return decision
        if decision is Decision.UNDECIDED:
            found = decision
    return found


def _compare_ratios(one: Sequence[Answer], other: Sequence[Answer]) -> Decision:
    """Return whether two ratios are proportional. `10:20` and `5:10` are so, but may be times of day."""
    numbers = [[_number(member) for member in members] for members in (one, other)]
    if len(one) != len(other) or not all(numbers[0] + numbers[1]):
        return Decision.DIFFERENT
    quotients = {left / right for left, right in zip(*numbers, strict=True) if left and right}
    if len(quotients) > 1:
        return Decision.DIFFERENT
    return (
        Decision.UNDECIDED if len(one) == 2 and _may_be_time(one) and _may_be_time(other) else Decision.EQUAL
    )


def _compare_ratio(ratio: Collection, other: Answer) -> Decision:
    numbers = [_number(member) for member in ratio.members]
    value = _number(other)
    if len(numbers) != 2 or not all(numbers) or value is None or numbers[0] != value * (numbers[1] or 1):
        return Decision.DIFFERENT
    return Decision.UNDECIDED if _may_be_time(ratio.members) else Decision.EQUAL


def _number(answer: Answer) -> Fraction | None:
    return answer.quantity.value if isinstance(answer, Value) and answer.quantity is not None else None


def _may_be_time(members: Sequence[Answer]) -> bool:
    hour, minute = members[0], members[1]
    return (
        isinstance(hour, Value)
        and isinstance(minute, Value)
        and re.fullmatch(r"[01]?\d|2[0-4]", hour.text) is not None
        and re.fullmatch(r"[0-5]\d", minute.text) is not None
    )


def _compare_values(one: Value, other: Value) -> Decision:
    if one.quantity is not None and other.quantity is not None:
        return Decision.EQUAL if is_same_quantity(one.quantity, other.quantity) else Decision.DIFFERENT
    angles = _convert_to_radians(one, other) or _convert_to_radians(other, one)
    if angles is not None:
        return decide(*angles)
    if not are_comparable(one.unit, other.unit):
        return Decision.DIFFERENT
    texts = [
        _convert_to_base_units(value, is_converted=one.unit.is_given and other.unit.is_given)
        for value in (one, other)
    ]
    found = decide(*texts)
    if found is Decision.DIFFERENT and (one.unit == PERCENT) != (other.unit == PERCENT):
        shares = (f"\\frac{{{text}}}{{100}}" if value.unit == PERCENT else text
                  for text, value in zip(texts, (one, other), strict=True))  # fmt: skip
        return decide(*shares)
    return found


def _convert_to_radians(one: Value, other: Value) -> tuple[str, str] | None:
    """Return the formulas of two angles if `one` is in degrees and `other` in radians: with their name, or by pi."""
    is_by_pi = not other.unit.is_given and re.search(r"\\pi(?![a-zA-Z])|\\circ", other.text)
    if one.unit != DEGREE or not (other.unit == RADIAN or is_by_pi):
        return None
    number = _convert_to_base_units(one, is_converted=False)
    return f"({number})\\cdot \\frac{{\\pi}}{{180}}", _convert_to_base_units(other, is_converted=False)


def _convert_to_base_units(value: Value, *, is_converted: bool) -> str:
    """Return the number of a value as a formula: a fraction, or the decimal as which it was written."""
    text = value.text
    if value.quantity is not None:
        text = _write_number(value.quantity)
    factor = value.unit.factor
    if is_converted and factor != 1:
        text = f"({text})\\cdot \\frac{{{factor.numerator}}}{{{factor.denominator}}}"
    return text


def _write_number(quantity: Quantity) -> str:
    top, bottom = quantity.value.numerator, quantity.value.denominator
    if not quantity.is_decimal or bottom == 1:
        return f"\\frac{{{top}}}{{{bottom}}}"
    with localcontext(prec=MAX_DIGITS_OF_DECIMAL):
        return f"{Decimal(top) / Decimal(bottom):f}"


_COMPARISONS: tuple[tuple[type, Callable[[Any, Answer], Decision]], ...] = (
    (Words, _compare_words),
    (Rounded, _compare_rounded),
    (Relation, _compare_relations),
    (Time, _compare_times),
    (Numeral, _compare_numerals),
    (Collection, _compare_collections),
)
"""The comparison of each kind with any later one."""


def _depth(text: str) -> int:
    deepest = depth = 0
    for char in text:
        if char in "{([":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "})]":
            depth -= 1
    return deepest
