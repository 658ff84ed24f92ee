"""Generate tasks for `efficient_tool_use`, with par.

python prepare.py --size 1000 --seed 0 --output train.jsonl
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from nemo_gym.datasets.making import generator_options, make_tasks, write_rows
from nemo_gym.rows.compose import compose_task_row
from resources_servers.efficient_tool_use.par import cheapest_plan
from resources_servers.efficient_tool_use.stock import Bin, Tool, definitions

WAREHOUSES = ("Oslo", "Lima", "Cairo", "Quito", "Hanoi", "Turin", "Dakar", "Perth")
PARTS = ("bolts", "nuts", "gears", "hinges", "valves", "springs", "bearings", "pulleys")

TOKENS_PER_CALL = 30
TOKENS_OF_ANSWER = 15
"""Approximate tokens of a call and of a bare answer in common chat formats."""


class Clause(NamedTuple):
    """A part of a question: some bins and their description."""

    words: str
    bins: frozenset[Bin]


class Question(NamedTuple):
    words: str
    needed: frozenset[Bin]
    answer: int


def make_task(index: int, rng: random.Random) -> dict[str, Any]:
    """Return a task: a question about bins of a stock, with its par."""
    warehouses, parts = rng.sample(WAREHOUSES, rng.randint(3, 6)), rng.sample(PARTS, rng.randint(3, 6))
    stock = {warehouse: {part: rng.randint(10, 999) for part in parts} for warehouse in warehouses}
    prices = {Tool.COUNT_BIN: 1, Tool.LIST_WAREHOUSE: rng.randint(2, 4), Tool.LIST_PART: rng.randint(2, 4)}
    question = _ask(_draw_clauses(warehouses, parts, rng), stock, rng)
    plan = cheapest_plan(question.needed, prices)
    return compose_task_row(
        [
            {"role": "system", "content": _rules(warehouses, parts)},
            {"role": "user", "content": question.words},
        ],
        row_id=index,
        params={"tools": definitions(prices)},
        stock=stock,
        needed=sorted(question.needed),
        expected_answer=question.answer,
        prices=prices,
        par_cost=plan.cost,
        par_calls=len(plan.calls),
        par_tokens=TOKENS_PER_CALL * len(plan.calls) + TOKENS_OF_ANSWER,
    )


def _rules(warehouses: Sequence[str], parts: Sequence[str]) -> str:
    return (
        f"The warehouses {', '.join(warehouses)} each have a bin of {', '.join(parts)}. Tools show how many units are "
        "in the bins; every call costs credits, as its description says. Find the answer for as few credits as "
        'possible, in few words, and end with a line "Answer: N".'
    )


def _draw_clauses(warehouses: Sequence[str], parts: Sequence[str], rng: random.Random) -> list[Clause]:
    """Draw one to three disjoint clauses: a row, a column or single bins."""
    clauses: list[Clause] = []
    for kind in rng.sample(["row", "column", "bins", "bins"], rng.randint(1, 3)):
        taken = frozenset[Bin]().union(*(clause.bins for clause in clauses))
        clause = _draw_clause(kind, warehouses, parts, rng)
        if not clause.bins & taken:
            clauses.append(clause)
    return clauses


def _draw_clause(kind: str, warehouses: Sequence[str], parts: Sequence[str], rng: random.Random) -> Clause:
    if kind == "row":
        warehouse = rng.choice(warehouses)
        return Clause(f"all parts in {warehouse}", frozenset((warehouse, part) for part in parts))
    if kind == "column":
        part = rng.choice(parts)
        return Clause(f"{part} in all warehouses", frozenset((warehouse, part) for warehouse in warehouses))
    bins = rng.sample([(warehouse, part) for warehouse in warehouses for part in parts], rng.randint(1, 3))
    return Clause(", ".join(f"{part} in {warehouse}" for warehouse, part in bins), frozenset(bins))


def _ask(clauses: Sequence[Clause], stock: dict[str, dict[str, int]], rng: random.Random) -> Question:
    def units(bins: Collection[Bin]) -> list[int]:
        return [stock[warehouse][part] for warehouse, part in bins]

    needed = frozenset[Bin]().union(*(clause.bins for clause in clauses))
    words = " and ".join(clause.words for clause in clauses)
    if len(clauses) == 2 and rng.random() < 0.5:
        first, second = clauses
        answer = abs(sum(units(first.bins)) - sum(units(second.bins)))
        return Question(
            f"How far apart are the totals of A: {first.words}; B: {second.words}?", needed, answer
        )
    if len(needed) > 1 and rng.random() < 0.3:
        return Question(f"How many units are in the fullest bin among {words}?", needed, max(units(needed)))
    return Question(f"How many units are there in total of {words}?", needed, sum(units(needed)))


def main(arguments: list[str] | None = None) -> None:
    options = generator_options(__doc__, arguments)
    write_rows(make_tasks(make_task, options), options.output)


if __name__ == "__main__":
    main()
