"""Programs and queries for audits of `code_gen` and `text_to_sql`, with their right answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any


def make_programs(chance: random.Random) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield rows of `code_gen` with a right program: lines of one number to its value in a formula."""
    for at in range(155):
        factor, added = chance.randint(2, 9), chance.randint(1, 99)
        inputs = [str(chance.randint(1, 500)) for _ in range(3)]
        outputs = [f"{int(given) * factor + added}\n" for given in inputs]
        question = (
            f"Case {at}: write a program that reads an integer and prints it times {factor} plus {added}. "
            "Answer with one ```python block."
        )
        row = {
            "responses_create_params": {"input": [{"role": "user", "content": question}]},
            "verifier_metadata": {
                "unit_tests": {"inputs": [f"{given}\n" for given in inputs], "outputs": outputs}
            },
        }
        yield row, f"```python\nprint(int(input()) * {factor} + {added})\n```"


def make_queries(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Yield rows of `text_to_sql` over small tables."""
    names = ("Ines", "Karl", "Noor", "Omar", "Pia", "Ravi", "Sven", "Tess")
    for at in range(160):
        rows = [(name, chance.randint(1, 40), chance.choice(("north", "south"))) for name in names]
        values = ", ".join(f"('{name}', {age}, '{side}')" for name, age, side in rows)
        tables = (
            f"CREATE TABLE crew (name TEXT, years INTEGER, side TEXT);\nINSERT INTO crew VALUES {values};"
        )
        least, side = chance.randint(5, 30), chance.choice(("north", "south"))
        kinds = (
            ("Who has more years than {least}?", "SELECT name FROM crew WHERE years > {least}"),
            ("How many are in the {side}?", "SELECT COUNT(*) FROM crew WHERE side = '{side}'"),
            ("How many years has each side in total?", "SELECT side, SUM(years) FROM crew GROUP BY side"),
            ("Who has the most years in the {side}?", "SELECT MAX(years) FROM crew WHERE side = '{side}'"),
        )
        asked, query = (text.format(least=least, side=side) for text in kinds[at % 4])
        question = (
            "Answer the question with one SQLite query in a ```sql block. Nothing else is run.\n\n"
            f"Tables and rows:\n{tables}\n\nQuestion {at}: {asked}"
        )
        yield {
            "responses_create_params": {"input": [{"role": "user", "content": question}]},
            "uuid": f"crew-{at}", "sql": query, "sql_dialect": "sqlite", "sql_context": tables, "sql_prompt": asked,
        }  # fmt: skip
