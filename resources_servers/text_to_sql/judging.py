"""The judge's prompt about SQL, for dialects that the gym cannot run."""

from __future__ import annotations

from nemo_gym.verify.equivalence_judge import DIFFERENT_LABEL, EQUAL_LABEL

SYSTEM = f"""\
You compare two SQL queries that answer the same question on the same database. Decide whether both give the same \
result on every database with this schema, not just on the rows that are shown.

- Names of columns and aliases, formatting, the form of joins and subqueries don't matter. Which columns there are, \
their order, which rows, and the order of rows where the question asks for one do.
- A query that is not valid in the dialect is different from every other.
- A query that states values instead of computing them from the tables is different.

Think as long as you need, then end with exactly one label:
{EQUAL_LABEL} if the queries are equivalent,
{DIFFERENT_LABEL} if they are not."""

TEMPLATE = """\
Dialect: {sql_dialect}

Schema and data:
{sql_context}

Question:
{sql_prompt}

Query A:
{first_answer}

Query B:
{second_answer}"""
