"""Queries on SQLite: results that are equal and that aren't, and what queries may not do."""

from __future__ import annotations

import itertools
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nemo_gym.failures import InputError, VerifierError
from nemo_gym.processes.workers import WorkerPool
from resources_servers.text_to_sql import sql_execution
from resources_servers.text_to_sql.sql_execution import (
    QueryFailed,
    SqlLimits,
    SqlReason,
    SqlVerdict,
    compare_with_gold,
    run_gold,
    run_query,
    sorts_rows,
)

CONTEXT = """
CREATE TABLE people (name TEXT, age INTEGER, height REAL);
INSERT INTO people VALUES ('Ada', 36, 1.65), ('Bob', 36, 1.8), ('Cyd', NULL, 1.7);
"""
OTHER = (
    "CREATE TABLE people (name TEXT, age INTEGER, height REAL); INSERT INTO people VALUES ('Eve', 1, 0.5);"
)


async def compare(
    answer: str, gold: str = "SELECT name, age FROM people", *contexts: str, ignore_order: bool | None = None
) -> SqlVerdict:
    where = contexts or (CONTEXT,)
    results = await run_gold(where, gold)
    return await compare_with_gold(where, answer, results, ignore_order=ignore_order)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("SELECT name, age FROM people", "SELECT name, age FROM people"),
        ("SELECT name AS n, age FROM people ORDER BY name DESC;", "SELECT name, age FROM people"),
        ("WITH p AS (SELECT * FROM people) SELECT name FROM p -- all", "SELECT name FROM people"),
        ("SELECT age * 1.0 FROM people WHERE age > 1", "SELECT age FROM people WHERE age > 1"),
        ("SELECT avg(height) + 1e-9 FROM people", "SELECT avg(height) FROM people"),
        ("SELECT name FROM people ORDER BY name", "SELECT name FROM people ORDER BY name ASC"),
        ("VALUES (1), (1), (NULL)", "SELECT 1 UNION ALL SELECT NULL UNION ALL SELECT 1"),
    ],
)
async def test_equal_results(answer: str, gold: str) -> None:
    assert await compare(answer, gold) == SqlVerdict(None)


@pytest.mark.parametrize(
    ("answer", "gold", "reason"),
    [
        ("SELECT name FROM people", "SELECT name, age FROM people", SqlReason.WRONG_COLUMNS),
        ("SELECT age, name FROM people", "SELECT name, age FROM people", SqlReason.WRONG_ROWS),
        ("SELECT name FROM people LIMIT 2", "SELECT name FROM people", SqlReason.WRONG_ROWS),
        ("SELECT DISTINCT age FROM people", "SELECT age FROM people", SqlReason.WRONG_ROWS),
        ("SELECT '36' FROM people", "SELECT 36 FROM people", SqlReason.WRONG_ROWS),
        ("SELECT 0 FROM people", "SELECT NULL FROM people", SqlReason.WRONG_ROWS),
        ("SELECT upper(name) FROM people", "SELECT name FROM people", SqlReason.WRONG_ROWS),
        (
            "SELECT name FROM people ORDER BY name DESC",
            "SELECT name FROM people ORDER BY name",
            SqlReason.WRONG_ORDER,
        ),
        ("SELECT nothing FROM people", "SELECT name FROM people", SqlReason.FAILED),
        ("SELEC name", "SELECT name FROM people", SqlReason.FAILED),
        ("", "SELECT name FROM people", SqlReason.NO_QUERY),
        ("-- nothing", "SELECT name FROM people", SqlReason.NO_QUERY),
        ("SELECT 1; SELECT name FROM people", "SELECT name FROM people", SqlReason.FAILED),
    ],
)
async def test_other_results(answer: str, gold: str, reason: SqlReason) -> None:
    assert (await compare(answer, gold)).reason is reason


async def test_order_counts_where_it_is_said_to() -> None:
    backwards, gold = "SELECT name FROM people ORDER BY name DESC", "SELECT name FROM people ORDER BY name"
    assert (await compare(backwards, gold, ignore_order=True)).is_equal
    unsorted = "SELECT name FROM people"
    assert (await compare(backwards, unsorted, ignore_order=False)).reason is SqlReason.WRONG_ORDER


async def test_values_in_place_of_a_query_fail_on_another_database() -> None:
    made_up = "SELECT 'Ada', 36 UNION ALL SELECT 'Bob', 36 UNION ALL SELECT 'Cyd', NULL"
    gold = "SELECT name, age FROM people"
    assert (await compare(made_up, gold)).is_equal
    assert (await compare(made_up, gold, CONTEXT, OTHER)).reason is SqlReason.WRONG_ROWS
    assert (await compare("SELECT name, age FROM people", gold, CONTEXT, OTHER)).is_equal


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO people VALUES ('Mal', 1, 1)",
        "DELETE FROM people",
        "UPDATE people SET age = 1",
        "DROP TABLE people",
        "CREATE TABLE t (x)",
        "ATTACH DATABASE '{file}' AS other",
        "VACUUM INTO '{file}'",
        "PRAGMA query_only = OFF",
        "PRAGMA hard_heap_limit = 0",
        "SELECT * FROM pragma_database_list",
        "SELECT load_extension('{file}')",
        "SELECT LOAD_EXTENSION('{file}')",
        "SELECT writefile('{file}', 'x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT fts3_tokenizer('simple')",
        "BEGIN; DELETE FROM people",
        "EXPLAIN DELETE FROM people",
    ],
)
def test_queries_may_read_and_nothing_else(query: str, tmp_path: Path) -> None:
    file = tmp_path / "planted"
    with pytest.raises(QueryFailed) as caught:
        run_query(CONTEXT, query.format(file=file), SqlLimits())
    assert caught.value.reason in (SqlReason.FAILED, SqlReason.NO_QUERY)
    assert not file.exists()


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (ENDLESS + "SELECT count(*) FROM n", SqlReason.TIMED_OUT),
        (ENDLESS + "SELECT x FROM n", SqlReason.TOO_MUCH),
        ("SELECT zeroblob(1000000000)", SqlReason.TOO_MUCH),
        ("SELECT replace(hex(zeroblob(500000)), '0', 'xxxxxxxxxx')", SqlReason.TOO_MUCH),
        (ENDLESS + "SELECT zeroblob(1000000) FROM n", SqlReason.TOO_MUCH),
        (ENDLESS + "SELECT x, randomblob(900000) AS y FROM n ORDER BY y", SqlReason.TOO_MUCH),
    ],
)
def test_time_rows_and_memory_are_limited(query: str, reason: SqlReason) -> None:
    seconds = 1.0 if reason is SqlReason.TIMED_OUT else 60.0
    with pytest.raises(QueryFailed) as caught:
        run_query(CONTEXT, query, SqlLimits(seconds=seconds, rows=100, memory_bytes=64 << 20))
    assert caught.value.reason is reason


async def test_what_a_worker_cannot_survive_is_the_answers_fault() -> None:
    gold = await run_gold([CONTEXT], "SELECT name FROM people")
    slow = "SELECT " + " + ".join(["length(replace(hex(zeroblob(400000)), '00', '000'))"] * 90)
    limits = SqlLimits(seconds=0.1)
    verdict = await compare_with_gold([CONTEXT], slow, gold, limits=limits)
    assert verdict.reason in (SqlReason.TIMED_OUT, SqlReason.TOO_MUCH, "cpu_time")


class FailingPool(WorkerPool):
    """A pool whose first jobs fail as the codes say. Later ones run."""

    def __init__(self, *codes: str) -> None:
        super().__init__(1)
        self.codes = list(codes)

    async def submit(self, *args: Any, **kwargs: Any) -> Any:
        if self.codes:
            raise VerifierError("the worker failed", code=self.codes.pop(0))
        return await super().submit(*args, **kwargs)


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        (["verifier_timeout"], "cpu_time"),
        (["verifier_out_of_memory"], "memory"),
        (["verifier_blocked"] * 2, "blocked"),
        (["verifier_crashed"] * 2, "crashed"),
        (["verifier_crashed"], None),
    ],
)
async def test_a_query_that_breaks_its_worker_is_0_with_the_kind_of_its_fault(
    codes: list[str], kind: str | None
) -> None:
    gold = await run_gold([CONTEXT], "SELECT name FROM people")
    pool = FailingPool(*codes)
    verdict = await compare_with_gold([CONTEXT], "SELECT name FROM people", gold, pool=pool)
    await pool.close()
    assert verdict.reason == kind


@pytest.mark.parametrize(
    "codes", [["verifier_starved"], ["verifier_timeout", "verifier_timeout"], ["verifier_unavailable"]]
)
async def test_a_busy_or_broken_machine_is_a_failure(codes: list[str]) -> None:
    gold = await run_gold([CONTEXT], "SELECT name FROM people")
    pool = FailingPool(*codes)
    with pytest.raises(VerifierError):
        await compare_with_gold([CONTEXT], "SELECT name FROM people", gold, pool=pool)
    await pool.close()


def test_the_time_that_a_query_waits_for_a_core_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = itertools.count(0, 3600)
    busy_machine = SimpleNamespace(monotonic=lambda: next(hours), thread_time=time.thread_time)
    monkeypatch.setattr(sql_execution, "time", busy_machine)
    thousand = ENDLESS.replace("FROM n", "FROM n WHERE x < 1000")
    assert run_query("", thousand + "SELECT count(*) FROM n", SqlLimits()).rows == ((1000,),)


@pytest.mark.parametrize(
    ("context", "query"),
    [
        ("CREATE TABL x", "SELECT 1"),
        ("CREATE TABLE x (id INT AUTO_INCREMENT) ENGINE=InnoDB", "SELECT 1"),
        (CONTEXT, "SELECT SUBSTRING_INDEX(name, 'a', 1) FROM people"),
        (CONTEXT, "DELETE FROM people"),
        ("ATTACH DATABASE '/tmp/x' AS y", "SELECT 1"),
    ],
)
async def test_sql_of_the_task_that_does_not_run_is_the_tasks_fault(context: str, query: str) -> None:
    with pytest.raises(InputError, match="does not run on SQLite") as caught:
        await run_gold([context], query)
    assert caught.value.failure.code == "invalid_row"


async def test_a_database_that_fails_later_fails_the_attempt() -> None:
    gold = await run_gold([CONTEXT], "SELECT name FROM people")
    with pytest.raises(VerifierError) as caught:
        await compare_with_gold(["CREATE TABL x"], "SELECT name FROM people", gold)
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("database_failed", True)


def test_one_query_leaves_nothing_to_the_next() -> None:
    assert run_query("CREATE TABLE t (x)", "SELECT count(*) FROM t", SqlLimits()).rows == ((0,),)
    with pytest.raises(QueryFailed):
        run_query("", "SELECT * FROM t", SqlLimits())


@pytest.mark.parametrize(
    ("query", "is_sorted"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("select a from t\norder\n by a limit 3", True),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", False),
        ("SELECT row_number() OVER (ORDER BY a) FROM t", False),
        ("WITH x AS (SELECT a FROM t ORDER BY a) SELECT * FROM x", False),
        ("WITH x AS (SELECT a FROM t) SELECT * FROM x ORDER BY 1", True),
        ("SELECT 'order by' FROM t", False),
        ('SELECT a AS "order by" FROM t -- order by a', False),
        ("SELECT a /* order by */ FROM [order by]", False),
        ("SELECT a AS order_by FROM t", False),
        ("SELECT ')' || a FROM t ORDER BY a", True),
    ],
)
def test_only_a_query_that_sorts_its_own_rows_sorts(query: str, is_sorted: bool) -> None:
    assert sorts_rows(query) is is_sorted


async def test_the_field_that_is_at_fault_is_named() -> None:
    fields = {"query_field": "sql", "context_fields": ["first", "second"]}
    for contexts, query, field in (
        ([CONTEXT, "CREATE TABL x"], "SELECT 1", "second"),
        ([CONTEXT, OTHER], "SELECT nothing", "sql"),
    ):
        with pytest.raises(InputError, match=f"{field}: ") as caught:
            await run_gold(contexts, query, **fields)  # type: ignore[arg-type]
        assert caught.value.failure.param == field
    with pytest.raises(InputError) as caught:
        await run_gold(["CREATE TABL x"], "SELECT 1")
    assert caught.value.failure.param == "contexts[0]"


def test_the_clock_is_looked_at_every_few_rows_because_each_may_be_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def look() -> float:
        nonlocal looks
        looks += 1
        return 0.0

    monkeypatch.setattr(sql_execution, "time", SimpleNamespace(thread_time=look))
    thousand = ENDLESS.replace("FROM n", "FROM n WHERE x < 1000")
    assert run_query("", thousand + "SELECT count(*) FROM n", SqlLimits()).rows == ((1000,),)
    assert looks > 50


def test_sqlite_here_can_be_limited() -> None:
    assert sqlite3.sqlite_version_info >= (3, 31), "hard_heap_limit needs SQLite 3.31"
