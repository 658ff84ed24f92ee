"""Queries of strangers on SQLite, and whether two queries give the same result.

    gold = await run_gold([context], "SELECT name FROM people ORDER BY age")
    verdict = await compare_with_gold([context], answer, gold)

A context is the SQL that builds a database (`CREATE TABLE ...; INSERT ...`). It is built in memory for each query,
in a worker process, and then sealed: an authorizer lets queries read tables and call functions and nothing else, so
no `ATTACH`, `PRAGMA`, `INSERT` or `load_extension`. Time, rows, the size of values and SQLite's memory are limited;
what goes beyond is the answer's fault, except for the gold query, where it is the task's (`InputError`).

Results are equal when they have the same columns in the same order (names aside) and the same rows (`sql_rows`): in
the same order where the gold query sorts them, as a multiset otherwise.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from nemo_gym.failures import InputError, VerifierError
from resources_servers.text_to_sql.sql_rows import Row, are_same_in_any_order, are_same_in_order

_STEPS_BETWEEN_LOOKS = 200
"""SQLite's instructions between two looks at the clock. One may take milliseconds, a thousand of them seconds."""


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """What one query may use."""

    seconds: float = 5.0
    """By the clock on the wall, to build a database and again for the query."""
    rows: int = 10_000
    value_bytes: int = 1 << 20
    """Of one text or blob."""
    result_bytes: int = 16 << 20
    """Of all texts and blobs of a result."""
    memory_bytes: int = 256 << 20
    """Of SQLite itself."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a query gave on one database."""

    columns: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Gold:
    """What the gold query gave on each database, and whether it sorts."""

    results: tuple[Result, ...]
    is_sorted: bool

    @property
    def has_rows(self) -> bool:
        """Whether there is anything that an answer could get wrong."""
        return any(result.rows for result in self.results)


class SqlReason(StrEnum):
    """Why an answer's result is not the gold one."""

    NO_DATABASE = "database_failed"
    """The database itself could not be built. Never the answer's fault, and never its verdict."""
    FAILED = "query_failed"
    """SQLite refused it: an error, or something that a query may not do."""
    NO_QUERY = "not_a_query"
    TIMED_OUT = "query_timed_out"
    TOO_MUCH = "query_too_large"
    WRONG_COLUMNS = "wrong_columns"
    WRONG_ROWS = "wrong_rows"
    WRONG_ORDER = "wrong_order"


@dataclass(frozen=True, slots=True)
class SqlVerdict:
    """How an answer's result compares with the gold one."""

    reason: SqlReason | None
    """None when they are equal."""
    detail: str = ""
    database: int | None = None
    """Which context it happened on, where a query gave no result."""

    @property
    def is_equal(self) -> bool:
        return self.reason is None


class QueryFailed(Exception):
    """A query that gave no result."""

    def __init__(self, reason: SqlReason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


async def run_gold(
    contexts: Sequence[str],
    query: str,
    limits: SqlLimits | None = None,
    *,
    query_field: str = "query",
    context_fields: Sequence[str] | None = None,
) -> Gold:
    """The results of the gold query on each context.

    Raises InputError where a context or the query doesn't run on SQLite within the limits. It names the field of the
    task that is at fault: `query_field`, or one of `context_fields`, which are in the order of the contexts.
    """
    from nemo_gym.processes.workers import default_pool

    limits = limits or SqlLimits()
    outcome = await default_pool().run(
        run_on_each, tuple(contexts), query, limits, timeout_s=_pool_timeout(len(contexts), limits)
    )
    if isinstance(outcome, SqlVerdict):
        field = query_field
        if outcome.reason is SqlReason.NO_DATABASE:
            names = context_fields or [f"contexts[{index}]" for index in range(len(contexts))]
            field = names[outcome.database or 0]
        raise InputError(
            f"The task's own SQL does not run on SQLite: {field}: {outcome.detail}.",
            code="invalid_row",
            param=field,
            remedy="Correct it in the dataset.",
        )
    return Gold(outcome, sorts_rows(query))


async def compare_with_gold(
    contexts: Sequence[str],
    query: str,
    gold: Gold,
    *,
    ignore_order: bool | None = None,
    limits: SqlLimits | None = None,
) -> SqlVerdict:
    """How the result of `query` compares with the gold one, on every context.

    `ignore_order` says whether rows count as a multiset; by default they do unless the gold query sorts them.
    """
    from nemo_gym.processes.workers import default_pool

    limits = limits or SqlLimits()
    is_ordered = not ignore_order if ignore_order is not None else gold.is_sorted
    timeout_s = _pool_timeout(len(contexts), limits)
    try:
        verdict = await default_pool().run(
            compare_on_each, tuple(contexts), query, gold.results, is_ordered, limits, timeout_s=timeout_s
        )
    except VerifierError as error:
        # The gold query ran in a worker like this one, so what ended this one is the answer.
        reason = _REASON_OF_WORKER.get(error.failure.code)
        if reason is None:
            raise
        return SqlVerdict(reason, error.failure.message)
    if verdict.reason is SqlReason.NO_DATABASE:
        raise VerifierError(verdict.detail, code="database_failed", retryable=True)
    return verdict


_REASON_OF_WORKER = {"verifier_timeout": SqlReason.TIMED_OUT, "verifier_crashed": SqlReason.TOO_MUCH}


def _pool_timeout(databases: int, limits: SqlLimits) -> float:
    """Longer than the limits of the queries themselves: it ends what they don't see, such as one long function."""
    return databases * (2 * limits.seconds + 1) + 2


def run_on_each(contexts: tuple[str, ...], query: str, limits: SqlLimits) -> tuple[Result, ...] | SqlVerdict:
    """The results of `query` on each context, or why there are none. Runs in a worker."""
    results: list[Result] = []
    for context in contexts:
        try:
            results.append(run_query(context, query, limits))
        except QueryFailed as failed:
            return SqlVerdict(failed.reason, failed.detail, len(results))
    return tuple(results)


def compare_on_each(
    contexts: tuple[str, ...],
    query: str,
    expected: tuple[Result, ...],
    is_ordered: bool,
    limits: SqlLimits,
) -> SqlVerdict:
    """How the results of `query` compare with the expected ones. Runs in a worker."""
    outcome = run_on_each(contexts, query, limits)
    if isinstance(outcome, SqlVerdict):
        return outcome
    verdicts = (
        compare_results(wanted, given, is_ordered=is_ordered)
        for wanted, given in zip(expected, outcome, strict=True)
    )
    return next((verdict for verdict in verdicts if not verdict.is_equal), SqlVerdict(None))


def run_query(context: str, query: str, limits: SqlLimits) -> Result:
    """The result of one query on one database, here and now. Raises QueryFailed."""
    database = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
    try:
        database.execute(f"PRAGMA hard_heap_limit = {limits.memory_bytes}")
        database.execute("PRAGMA temp_store = MEMORY")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value_bytes)
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        _limit_time(database, limits.seconds)
        _build(database, context)
        _limit_time(database, limits.seconds)
        database.set_authorizer(_allow_reading)
        return _fetch(database, query, limits)
    finally:
        database.close()


def _limit_time(database: sqlite3.Connection, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    database.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)


def _build(database: sqlite3.Connection, context: str) -> None:
    try:
        database.executescript(context)
    except (sqlite3.Error, sqlite3.Warning, MemoryError, ValueError) as error:
        raise QueryFailed(SqlReason.NO_DATABASE, f"the database cannot be built: {error}") from error


def _fetch(database: sqlite3.Connection, query: str, limits: SqlLimits) -> Result:
    try:
        cursor = database.execute(query)
        if cursor.description is None:
            raise QueryFailed(SqlReason.NO_QUERY, "it returns no rows and no columns")
        return Result(len(cursor.description), _read_rows(cursor, limits))
    except sqlite3.OperationalError as error:
        is_late = str(error) == "interrupted"
        detail = f"it ran over {limits.seconds:g} s" if is_late else str(error)
        raise QueryFailed(SqlReason.TIMED_OUT if is_late else SqlReason.FAILED, detail) from error
    except (sqlite3.DataError, MemoryError) as error:
        raise QueryFailed(SqlReason.TOO_MUCH, str(error) or "it takes too much memory") from error
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise QueryFailed(SqlReason.FAILED, str(error)) from error


def _read_rows(cursor: sqlite3.Cursor, limits: SqlLimits) -> tuple[Row, ...]:
    rows: list[Row] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += sum(len(cell) for cell in row if isinstance(cell, str | bytes))
        if len(rows) > limits.rows or size > limits.result_bytes:
            raise QueryFailed(
                SqlReason.TOO_MUCH, f"it returns more than {limits.rows} rows or {limits.result_bytes} bytes"
            )
    return tuple(rows)


_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)


_REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})


def _allow_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_refused = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _REFUSED_FUNCTIONS
    return sqlite3.SQLITE_OK if action in _READING and not is_refused else sqlite3.SQLITE_DENY


def compare_results(expected: Result, given: Result, *, is_ordered: bool) -> SqlVerdict:
    """How one result compares with the expected one."""
    if expected.columns != given.columns:
        return SqlVerdict(SqlReason.WRONG_COLUMNS, f"{given.columns} columns instead of {expected.columns}")
    if len(expected.rows) != len(given.rows):
        return SqlVerdict(SqlReason.WRONG_ROWS, f"{len(given.rows)} rows instead of {len(expected.rows)}")
    if is_ordered and are_same_in_order(expected.rows, given.rows):
        return SqlVerdict(None)
    if not are_same_in_any_order(expected.rows, given.rows):
        return SqlVerdict(SqlReason.WRONG_ROWS, "other rows")
    return (
        SqlVerdict(SqlReason.WRONG_ORDER, "the same rows in another order")
        if is_ordered
        else SqlVerdict(None)
    )


_LITERALS = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL
)
_ORDER_BY = re.compile(r"\border\s+by\b", re.IGNORECASE)


def sorts_rows(query: str) -> bool:
    """Whether a query has an ORDER BY of its own, not just within a subquery or a window."""
    plain = _LITERALS.sub(" ", query)
    depth, outside = 0, []
    for char in plain:
        depth += (char == "(") - (char == ")")
        outside.append(char if depth == 0 else " ")
    return _ORDER_BY.search("".join(outside)) is not None
