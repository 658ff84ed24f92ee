"""Tell conclusions that need several premises from those that copy one: the library takes both for right.

A statement is read as its truth table: the assignments, in a fixed order, under which it is true.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeAlias

Models: TypeAlias = int
"""The assignments under which a statement is true, as a set of bits."""


def is_drawn_from_several(answer: str, premises: Sequence[str], variables: Sequence[str]) -> bool:
    """Return whether `answer` follows from `premises`, and takes more than to copy them.

    It must not follow from one premise alone, nor from the premises that are literals (`P`, `¬P`), nor from a literal
    that follows, to which anything may be added (`P ∨ Q`). False for premises that contradict each other, because
    everything follows from them, and for an answer of more than two literals, which could join the premises.
    """
    tables = [find_models(premise, variables) for premise in premises]
    together = reduce(lambda one, other: one & other, tables)
    if not together or len(re.findall(r"[A-Z]", answer)) > 2:
        return False
    literals = [find_models(sign + name, variables) for name in variables for sign in ("", "¬")]
    joined = reduce(lambda one, other: one & other, (table for table in tables if table in literals), -1)
    models = find_models(answer, variables)
    following = [literal for literal in literals if together & ~literal == 0 and literal != models]
    return together & ~models == 0 and all(known & ~models for known in (*tables, *following, joined))


def find_models(statement: str, variables: Sequence[str]) -> Models:
    """Return the assignments to `variables` under which `statement` is true."""
    from reasoning_gym.logic.propositional_logic import Expression

    parsed: Any = Expression.from_string(statement)
    rows = itertools.product((False, True), repeat=len(variables))
    return sum(
        bool(parsed.evaluate(dict(zip(variables, row, strict=True)))) << place
        for place, row in enumerate(rows)
    )
