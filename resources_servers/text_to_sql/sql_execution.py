"""Run untrusted queries on SQLite and compare the results of two queries.

    gold = await run_gold([context], "SELECT name FROM people ORDER BY age")
    verdict = await compare_with_gold([context], answer, gold)

A context is the SQL that builds a database (`CREATE TABLE ...; INSERT ...`). It is built in memory for each query,
in a worker process, and then sealed: an authorizer allows only reading tables and calling functions, which excludes
`ATTACH`, `PRAGMA`, `INSERT` and `load_extension`. No result depends on the clock or on chance (`fixed_functions`), nor
on the version of SQLite. CPU time, rows, the size of values and SQLite's memory are limited.
An answer beyond a limit scores 0; a gold query beyond a limit is an error of the task (`InputError`).

Results are equal when they have the same number of columns (names are ignored) and the same rows (`sql_rows`): in the
same order when the gold query sorts them, as a multiset otherwise.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from nemo_gym.failures import InputError, VerifierError
from nemo_gym.processes.workers import WorkerPool, default_pool
from nemo_gym.verify.answer_faults import AnswerFault, score_in_worker
from resources_servers.text_to_sql.fixed_functions import fix_functions
from resources_servers.text_to_sql.sql_rows import Row, are_same_in_any_order, are_same_in_order

_STEPS_BETWEEN_LOOKS = 200
"""SQLite instructions between two checks of the time. One may take milliseconds, a thousand of them seconds."""
_OPEN_JSON = "SELECT 1 FROM json_each('[]'), json_tree('[]')"
"""A query that opens the virtual tables of JSON, because SQLite takes their first use for the making of a table."""
_CONTROL = "SELECT 1"
"""The harmless query that decides whether the task is at fault."""


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """The limits of one query."""

    seconds: float = 5.0
    """CPU seconds, once for building the database and again for the query."""
    rows: int = 10_000
    value_bytes: int = 1 << 20
    """Size of one text or blob."""
    result_bytes: int = 16 << 20
    """Total size of the texts and blobs of a result."""
    memory_bytes: int = 256 << 20
    """Memory of SQLite."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a query on one database."""

    columns: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Gold:
    """The results of the gold query on each database, and whether it sorts them."""

    results: tuple[Result, ...]
    is_sorted: bool

    @property
    def has_rows(self) -> bool:
        """True if any result has rows, so that a wrong answer can differ."""
        return any(result.rows for result in self.results)


class SqlReason(StrEnum):
    """The reason why an answer's result differs from the gold one."""

    NO_DATABASE = "database_failed"
    """The database could not be built. This is an error of the task, never a verdict on the answer."""
    FAILED = "query_failed"
    """SQLite reported an error or refused a forbidden operation."""
    NO_QUERY = "not_a_query"
    TIMED_OUT = "query_timed_out"
    TOO_MUCH = "query_too_large"
    WRONG_COLUMNS = "wrong_columns"
    WRONG_ROWS = "wrong_rows"
    WRONG_ORDER = "wrong_order"


@dataclass(frozen=True, slots=True)
class SqlVerdict:
    """The comparison of an answer's result with the gold one."""

    reason: str | None
    """A `SqlReason`, or the kind of an `AnswerFault` if the query broke its worker; None when they are equal."""
    detail: str = ""
    database: int | None = None
    """The index of the context on which a query failed."""

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
    """Return the results of the gold query on each context.

    Raises InputError when a context or the query fails on SQLite or exceeds a limit. It names the invalid field of the
    task: `query_field`, or the entry of `context_fields` for the context.
    """
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
            f"The task's SQL does not run on SQLite: {field}: {outcome.detail}.",
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
    pool: WorkerPool | None = None,
) -> SqlVerdict:
    """Compare the result of `query` with the gold one on every context.

    With `ignore_order` rows are compared as a multiset; by default they are unless the gold query sorts them.
    """
    limits = limits or SqlLimits()
    is_ordered = not ignore_order if ignore_order is not None else gold.is_sorted
    databases, rest = tuple(contexts), (gold.results, is_ordered, limits)
    verdict = await score_in_worker(
        compare_on_each,
        databases,
        query,
        *rest,
        control=(databases, _CONTROL, *rest),
        timeout_s=_pool_timeout(len(databases), limits),
        pool=pool,
    )
    if isinstance(verdict, AnswerFault):
        return SqlVerdict(verdict.kind, verdict.detail)
    if verdict.reason is SqlReason.NO_DATABASE:
        raise VerifierError(verdict.detail, code="database_failed", retryable=True)
    return verdict


def _pool_timeout(databases: int, limits: SqlLimits) -> float:
    """Return CPU seconds beyond the queries' own limits, for cases these miss, such as one long function call."""
    return databases * (2 * limits.seconds + 1) + 2


def run_on_each(contexts: tuple[str, ...], query: str, limits: SqlLimits) -> tuple[Result, ...] | SqlVerdict:
    """Return the results of `query` on each context, or the reason for its failure. Runs in a worker."""
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
    """Compare the results of `query` with the expected ones. Runs in a worker."""
    outcome = run_on_each(contexts, query, limits)
    if isinstance(outcome, SqlVerdict):
        return outcome
    verdicts = (
        compare_results(wanted, given, is_ordered=is_ordered)
        for wanted, given in zip(expected, outcome, strict=True)
    )
    return next((verdict for verdict in verdicts if not verdict.is_equal), SqlVerdict(None))


def run_query(context: str, query: str, limits: SqlLimits) -> Result:
    """Run one query on one database in this process. Raises QueryFailed."""
    database = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
    try:
        database.execute(f"PRAGMA hard_heap_limit = {limits.memory_bytes}")
        database.execute("PRAGMA temp_store = MEMORY")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value_bytes)
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        chance = fix_functions(database)
        with contextlib.suppress(sqlite3.OperationalError):  # an SQLite without JSON
            database.execute(_OPEN_JSON)
        _limit_time(database, limits.seconds)
        _build(database, context)
        _limit_time(database, limits.seconds)
        database.set_authorizer(_allow_reading)
        chance.was_asked = False
        result = _fetch(database, query, limits)
        if chance.was_asked:
            raise QueryFailed(SqlReason.FAILED, "its result depends on chance: it calls random or randomblob")
        return result
    finally:
        database.close()


def _limit_time(database: sqlite3.Connection, seconds: float) -> None:
    deadline = time.thread_time() + seconds
    database.set_progress_handler(lambda: time.thread_time() > deadline, _STEPS_BETWEEN_LOOKS)


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
        detail = f"it computed for over {limits.seconds:g} s" if is_late else str(error)
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


_REFUSED_FUNCTIONS = frozenset(
    {  # those that act, or that tell of this SQLite, its file or its connection instead of the tables
        *("load_extension", "fts3_tokenizer", "sqlite_log"),
        *("sqlite_version", "sqlite_source_id", "sqlite_compileoption_get", "sqlite_compileoption_used"),
        *("fts5_source_id", "sqlite_offset", "changes", "total_changes", "last_insert_rowid"),
    }
)


def _allow_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_refused = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _REFUSED_FUNCTIONS
    return sqlite3.SQLITE_OK if action in _READING and not is_refused else sqlite3.SQLITE_DENY


def compare_results(expected: Result, given: Result, *, is_ordered: bool) -> SqlVerdict:
    """Compare one result with the expected one."""
    if expected.columns != given.columns:
        return SqlVerdict(SqlReason.WRONG_COLUMNS, f"{given.columns} columns instead of {expected.columns}")
    if len(expected.rows) != len(given.rows):
        return SqlVerdict(SqlReason.WRONG_ROWS, f"{len(given.rows)} rows instead of {len(expected.rows)}")
    if is_ordered and are_same_in_order(expected.rows, given.rows):
        return SqlVerdict(None)
    if not are_same_in_any_order(expected.rows, given.rows):
        return SqlVerdict(SqlReason.WRONG_ROWS, "the rows differ")
    return (
        SqlVerdict(SqlReason.WRONG_ORDER, "the same rows in another order")
        if is_ordered
        else SqlVerdict(None)
    )


_LITERALS = re.compile(
    r"'(?:[^']|'')*+(?:'|\Z)|\"(?:[^\"]|\"\")*+(?:\"|\Z)|`[^`]*+(?:`|\Z)|\[[^\]]*+(?:\]|\Z)|--[^\n]*"
    r"|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_ORDER_BY = re.compile(r"\border\s+by\b", re.IGNORECASE)


def sorts_rows(query: str) -> bool:
    """Return whether a query has an ORDER BY outside of subqueries and windows."""
    plain = _LITERALS.sub(" ", query)
    depth, outside = 0, []
    for char in plain:
        depth += (char == "(") - (char == ")")
        outside.append(char if depth == 0 else " ")
    return _ORDER_BY.search("".join(outside)) is not None
