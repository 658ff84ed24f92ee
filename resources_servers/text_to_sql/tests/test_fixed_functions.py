"""No result of a query depends on the clock, on chance or on the machine."""

from __future__ import annotations

import re
import sqlite3
import time

import pytest

from nemo_gym.failures import InputError
from resources_servers.text_to_sql.fixed_functions import NOW, fix_functions
from resources_servers.text_to_sql.sql_execution import (
    QueryFailed,
    SqlLimits,
    SqlReason,
    compare_with_gold,
    run_gold,
    run_query,
)

CONTEXT = """
CREATE TABLE t (a INT, at TEXT DEFAULT CURRENT_TIMESTAMP, on_ TEXT DEFAULT (date('now')), n INT DEFAULT (random()),
                b BLOB DEFAULT (randomblob(4)), year TEXT GENERATED ALWAYS AS (strftime('%Y', at)));
CREATE INDEX i ON t (strftime('%Y', at));
INSERT INTO t (a) VALUES (1), (2);
"""


def value_of(query: str) -> object:
    ((value,),) = run_query(CONTEXT, query, SqlLimits()).rows
    return value


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("CURRENT_TIMESTAMP", NOW),
        ("CURRENT_DATE", "2025-01-01"),
        ("current_time", "12:00:00"),
        ("datetime('now')", NOW),
        ("datetime('n' || 'OW')", NOW),
        ("datetime()", NOW),
        ("date()", "2025-01-01"),
        ("time('now', '+1 hour')", "13:00:00"),
        ("date('now', 'localtime', '-1 day', 'utc')", "2024-12-31"),
        ("julianday('now')", 2460677.0),
        ("julianday()", 2460677.0),
        ("strftime('%s')", "1735732800"),
        ("strftime('%Y-%m', 'now')", "2025-01"),
        ("date('2024-02-30', 'start of month')", "2024-02-01"),
        ("datetime(1092941466, 'unixepoch', 'localtime')", "2004-08-19 18:51:06"),
        ("date(2460677)", "2025-01-01"),
        ("date('nonsense')", None),
        ("date(NULL)", None),
        ("date(x'6e6f77')", "2025-01-01"),
        ("date(CAST('now' AS BLOB))", "2025-01-01"),
        ("datetime('now' || char(0))", NOW),
        ("datetime('NoW' || char(0) || 'x')", NOW),
        ("datetime(x'4e4f570061')", NOW),
        ("unixepoch(x'6e6f77')", 1735732800),
        ("unixepoch('now' || char(0))", 1735732800),
        ("julianday(x'6e6f77', '+1 day')", 2460678.0),
        ("strftime('%s', x'6e6f77')", "1735732800"),
        ("strftime(x'2573', 'now')", "1735732800"),
        ("datetime('now', x'6c6f63616c74696d65')", NOW),
        ("datetime('now', 'utc' || char(0))", NOW),
        ("datetime('2024-07-01', 'LocalTime' || char(0) || 'x')", "2024-07-01 00:00:00"),
        ("datetime(' now')", None),
        ("datetime('now ')", None),
        ("datetime(x'')", None),
        ("(SELECT at || on_ || year FROM t WHERE a = 2)", f"{NOW}2025-01-012025"),
    ],
)
def test_the_clock_stands(call: str, value: object) -> None:
    assert value_of(f"SELECT {call}") == value


def test_databases_that_are_built_with_chance_are_the_same() -> None:
    first, second = (run_query(CONTEXT, "SELECT * FROM t", SqlLimits()) for _ in range(2))
    assert first == second
    assert len({row[3] for row in first.rows}) == 2


CHANCE = [
    "SELECT abs(random()) % 2",
    "SELECT RANDOM() > 0",
    "SELECT hex(randomblob(1)) < '80'",
    "SELECT a FROM t ORDER BY random() LIMIT 1",
    "SELECT a FROM t WHERE a = 1 + (SELECT abs(random()) % 2)",
    "WITH r AS (SELECT random() AS x) SELECT x FROM r",
]


@pytest.mark.parametrize("query", CHANCE)
def test_a_query_of_chance_is_no_answer(query: str) -> None:
    with pytest.raises(QueryFailed, match="depends on chance") as caught:
        run_query(CONTEXT, query, SqlLimits())
    assert caught.value.reason is SqlReason.FAILED


@pytest.mark.parametrize(
    "name",
    [
        "sqlite_version()",
        "SQLITE_SOURCE_ID()",
        "sqlite_compileoption_get(1)",
        "fts5_source_id()",
        "sqlite_log(1, 'x')",
        "changes()",
        "total_changes()",
        "last_insert_rowid()",
    ],
)
def test_a_query_about_the_machine_is_no_answer(name: str) -> None:
    with pytest.raises(QueryFailed, match="not authorized"):
        run_query(CONTEXT, f"SELECT {name}", SqlLimits())


def test_a_function_of_chance_that_is_not_called_does_no_harm() -> None:
    assert value_of("SELECT CASE WHEN 1 THEN 5 ELSE random() END") == 5


async def test_an_answer_gets_the_same_verdict_every_time() -> None:
    gold = await run_gold([CONTEXT], "SELECT a FROM t WHERE at >= datetime('now', '-1 day')", SqlLimits())
    right = "SELECT a FROM t WHERE date(at) = CURRENT_DATE"
    assert (await compare_with_gold([CONTEXT], right, gold)).is_equal
    for query in CHANCE:
        verdicts = {await compare_with_gold([CONTEXT], query, gold) for _ in range(3)}
        assert [verdict.reason for verdict in verdicts] == [SqlReason.FAILED]


async def test_a_task_whose_own_query_is_of_chance_is_an_error() -> None:
    with pytest.raises(InputError, match="depends on chance"):
        await run_gold([CONTEXT], "SELECT random()", SqlLimits())


def test_each_database_has_its_own_sequence() -> None:
    databases = [sqlite3.connect(":memory:") for _ in range(2)]
    for database in databases:
        fix_functions(database)
    drawn = [
        database.execute("SELECT random(), randomblob(3), randomblob(-1)").fetchone()
        for database in databases
    ]
    assert drawn[0] == drawn[1]
    assert [len(value) for value in drawn[0][1:]] == [3, 1]
    for database in databases:
        database.close()


WORDS = (
    "now",
    "NOW",
    "subsec",
    "subsecond",
    "localtime",
    "utc",
    "auto",
    "unixepoch",
    "+1 day",
    "2024-01-01",
    "",
    None,
)
SPELLINGS = (
    "'{0}'",
    "CAST('{0}' AS BLOB)",
    "'{0}' || char(0)",
    "'{0}' || char(0) || 'x'",
    "CAST('{0}' || char(0) AS BLOB)",
)


def test_no_function_of_sqlite_tells_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    original = sqlite3.connect(":memory:")
    clocks = {"date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff"}
    names = {row[0] for row in original.execute("PRAGMA function_list")} & clocks
    original.close()
    values = [spelling.format(word) for word in WORDS if word is not None for spelling in SPELLINGS] + [
        "NULL"
    ]
    calls = [
        f"{name}({', '.join([*before, moment, *modifier])})"
        for name in sorted(names)
        for before in ([["'%s %J'"]] if name == "strftime" else [[]])
        for moment in values
        for modifier in ([["'2000-01-01'"]] if name == "timediff" else [[], *([value] for value in values)])
    ]
    told: list[tuple[object, ...]] = []
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        told.append(tuple(run_query("", f"SELECT {call}", SqlLimits()).rows for call in calls))
    monkeypatch.undo()
    time.tzset()
    assert told[0] == told[1]
    years = {year for rows in told for row in rows for year in re.findall(r"20\d\d", str(row))}
    assert years <= {"2024", "2025", "2000"}


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("SELECT sum(value) FROM json_each('[1, 2]')", 3),
        ("SELECT count(*) FROM t, json_each('[1, 2]') AS j WHERE j.value = t.a", 2),
        ("SELECT group_concat(fullkey) FROM json_tree('{\"a\": [1]}') WHERE atom IS NOT NULL", "$.a[0]"),
        ("SELECT json_extract('{\"a\": 5}', '$.a')", 5),
    ],
)
def test_json_can_be_read_as_a_table(query: str, value: object) -> None:
    assert value_of(query) == value
