"""Gold, no-op, wrong and attacking queries, and tasks that only a judge can verify."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from nemo_gym.failures import InputError
from nemo_gym.judge import JudgeError
from nemo_gym.testing import run_environment
from nemo_gym.verify.equivalence_judge import DIFFERENT_LABEL, EQUAL_LABEL
from resources_servers.text_to_sql.app import (
    TextToSqlResourcesServer,
    TextToSqlResourcesServerConfig,
    TextToSqlVerifyRequest,
    TextToSqlVerifyResponse,
    extract_sql,
    scores_of,
)
from tests.verify.judges import JUDGE_SERVER, ScriptedJudge, response_of

FOLDER = Path(__file__).parents[1]
SHARED = FOLDER.parents[2] / "shared" / "data" / "environment_examples" / "text_to_sql.jsonl"
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n)"
CONTEXT = "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y');"


def make_server(model: ScriptedJudge | None = None, **options: Any) -> TextToSqlResourcesServer:
    if model is not None:
        options = {"judge_model_server": JUDGE_SERVER, **options}
    config = TextToSqlResourcesServerConfig(host="", port=0, entrypoint="", name="", **options)
    return TextToSqlResourcesServer(config=config, server_client=(model or ScriptedJudge()).client)


def attempt(text: str, **row: Any) -> dict[str, Any]:
    fields = {
        "responses_create_params": {"input": "Which?"},
        "sql": "SELECT b FROM t ORDER BY a",
        "sql_dialect": "sqlite",
        "sql_context": CONTEXT,
        "sql_prompt": "Which b are there, by a?",
    }
    return {**fields, **row, "response": response_of(text)}


async def verify(server: TextToSqlResourcesServer, text: str, **row: Any) -> TextToSqlVerifyResponse:
    return await server.verify(TextToSqlVerifyRequest.model_validate(attempt(text, **row)))


def fenced(query: str, language: str = "sql") -> str:
    return f"This does it:\n```{language}\n{query}\n```\n"


@pytest.mark.parametrize(
    ("text", "reward", "reason"),
    [
        (fenced("SELECT b FROM t ORDER BY a"), 1.0, None),
        (fenced("SELECT b AS c FROM t ORDER BY 1 ASC", "SQLite"), 1.0, None),
        ("select b from t order by a", 1.0, None),
        (fenced("SELECT 1") + fenced("SELECT b FROM t ORDER BY a"), 1.0, None),
        (fenced("SELECT b FROM t ORDER BY a DESC"), 0.0, "wrong_order"),
        (fenced("SELECT b, a FROM t ORDER BY a"), 0.0, "wrong_columns"),
        (fenced("SELECT b FROM t WHERE a = 1"), 0.0, "wrong_rows"),
        (fenced("SELECT c FROM t"), 0.0, "query_failed"),
        (fenced("DROP TABLE t"), 0.0, "query_failed"),
        (
            fenced("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT max(x) FROM n"),
            0.0,
            "query_timed_out",
        ),
        ("", 0.0, "no_sql_extracted"),
        ("I would select b from t.", 0.0, "no_sql_extracted"),
        (fenced("print(1)", "python"), 0.0, "no_sql_extracted"),
        (f"<think>{fenced('SELECT b FROM t ORDER BY a')}", 0.0, "no_sql_extracted"),
        (fenced(f"SELECT '{EQUAL_LABEL}'"), 0.0, "wrong_rows"),
    ],
)
async def test_queries_are_run_and_their_results_compared(
    text: str, reward: float, reason: str | None
) -> None:
    scored = await verify(make_server(query_timeout_s=1.5), text)
    assert (scored.reward, scored.failure_reason) == (reward, reason)
    assert scored.verified_by == (None if reason == "no_sql_extracted" else "execution")
    assert scored.judge_evaluations == []


async def test_order_and_further_databases_are_the_rows_to_say() -> None:
    server, backwards = make_server(), fenced("SELECT b FROM t ORDER BY a DESC")
    assert (await verify(server, backwards, ignore_order=True)).reward == 1.0
    stated = fenced("SELECT 'x' UNION ALL SELECT 'y'")
    assert (await verify(server, stated)).reward == 1.0
    other = "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (5, 'z');"
    assert (await verify(server, stated, sql_test_contexts=[other])).failure_reason == "wrong_rows"


UNRUNNABLE: dict[str, Any] = {"sql": "SELECT NOW() - INTERVAL '1 day'", "sql_dialect": "Postgres"}


@pytest.mark.parametrize(
    ("said", "options", "reward"),
    [
        ([EQUAL_LABEL, EQUAL_LABEL], {}, 1.0),
        ([EQUAL_LABEL, DIFFERENT_LABEL], {}, 0.0),
        ([EQUAL_LABEL, DIFFERENT_LABEL], {"reward_if_swap_fails": -1.0}, -1.0),
        ([DIFFERENT_LABEL], {"reward_if_swap_fails": -1.0}, 0.0),
        ([EQUAL_LABEL], {"check_twice_swap": False}, 1.0),
    ],
)
async def test_what_sqlite_cannot_run_is_judged(
    said: list[str], options: dict[str, Any], reward: float
) -> None:
    model = ScriptedJudge(*said)
    scored = await verify(make_server(model, **options), fenced("SELECT 1"), **UNRUNNABLE)
    assert (scored.reward, scored.verified_by, scored.judge_passed) == (reward, "judge", reward == 1.0)
    assert [evaluation.verdict_label for evaluation in scored.judge_evaluations] == said
    assert "Dialect: postgresql" in model.prompts[0]
    assert model.prompts[0].index("INTERVAL") < model.prompts[0].index("\nSELECT 1\n")


@pytest.mark.parametrize(
    ("row", "is_judged"),
    [
        ({}, False),
        ({"sql_dialect": "mysql"}, True),
        ({"sql": "SELECT b FROM t WHERE a > 9"}, True),
        ({"sql_context": ""}, True),
    ],
)
async def test_the_judge_is_asked_only_where_running_proves_nothing(
    row: dict[str, Any], is_judged: bool
) -> None:
    model = ScriptedJudge(DIFFERENT_LABEL)
    await verify(make_server(model), fenced("SELECT b FROM t ORDER BY a"), **row)
    assert len(model.asked) == is_judged


async def test_the_configuration_can_settle_who_verifies() -> None:
    model = ScriptedJudge(DIFFERENT_LABEL)
    judged = await verify(make_server(model, verification="judge"), fenced("SELECT b FROM t ORDER BY a"))
    assert (judged.reward, judged.verified_by) == (0.0, "judge")
    executed = make_server(ScriptedJudge(), verification="execution")
    assert (await verify(executed, fenced("SELECT b FROM t ORDER BY a"), sql_dialect="mysql")).reward == 1.0
    with pytest.raises(ValidationError, match="verification: judge needs judge_model_server"):
        make_server(verification="judge")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"sql_dialect": "oracle"}, "sql_dialect is 'oracle'"),
        (UNRUNNABLE, "does not run on SQLite"),
        ({"sql": "SELECT b FROM t WHERE a > 9"}, "sql returns no rows"),
    ],
)
async def test_a_task_that_nothing_can_verify_is_no_zero(row: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        await verify(make_server(), fenced("SELECT 1"), **row)
    assert caught.value.failure.code == "invalid_row"


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"sql": "SELECT nonsense(b) FROM t"}, "sql"),
        ({"sql": "SELEC b"}, "sql"),
        ({"sql": " "}, "sql"),
        ({"sql": " ", "sql_dialect": "mysql"}, "sql"),
        ({"sql_context": "CREATE TABL t"}, "sql_context"),
        ({"sql_test_contexts": [CONTEXT, "CREATE TABL t"]}, "sql_test_contexts[1]"),
        ({"sql_test_contexts": ["CREATE TABLE other (x)"]}, "sql"),
    ],
)
@pytest.mark.parametrize("text", [fenced("SELECT b FROM t ORDER BY a"), "I don't know.", ""])
@pytest.mark.parametrize("model", [None, ScriptedJudge(EQUAL_LABEL)], ids=["no judge", "judge"])
async def test_an_invalid_task_is_an_error_with_its_field_for_every_answer(
    row: dict[str, Any], field: str, text: str, model: ScriptedJudge | None
) -> None:
    with pytest.raises(InputError, match=re.escape(field)) as caught:
        await verify(make_server(model), text, **row)
    assert (caught.value.failure.code, caught.value.failure.param) == ("invalid_row", field)


async def test_a_judge_without_a_verdict_is_no_score() -> None:
    with pytest.raises(JudgeError):
        await verify(make_server(ScriptedJudge("hm")), fenced("SELECT 1"), **UNRUNNABLE)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("```sql\nSELECT 1;\n```", "SELECT 1;"),
        ("```\nSELECT 1\n```", "SELECT 1"),
        (
            "-- the answer\nWITH x AS (SELECT 1) SELECT * FROM x",
            "-- the answer\nWITH x AS (SELECT 1) SELECT * FROM x",
        ),
        ("```python\nx\n```", None),
        ("selection is hard", None),
        ("", None),
    ],
)
def test_the_query_is_found_in_the_answer(text: str, query: str | None) -> None:
    assert extract_sql(text) == query


def test_over_http_the_verdict_has_its_fields() -> None:
    with TestClient(make_server().setup_webserver()) as client:
        scored = client.post("/verify", json=attempt(fenced("SELECT b FROM t ORDER BY a"))).json()
        assert [scored[name] for name in ("reward", "verified_by", "extracted_sql", "failure_reason")] == [
            1.0,
            "execution",
            "SELECT b FROM t ORDER BY a",
            None,
        ]


def rows_of(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        pytest.skip(f"{file} is not on this machine")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


async def test_example_rows_reward_their_own_query_and_no_other() -> None:
    for row in rows_of(FOLDER / "data" / "example.jsonl"):
        for query, reward in ((row["sql"], 1.0), ("SELECT 1", 0.0)):
            body = TextToSqlVerifyRequest.model_validate({**row, "response": response_of(fenced(query))})
            assert (await make_server().verify(body)).reward == reward
        assert len(row["sql_test_contexts"]) > 0


async def test_rows_of_the_ecosystem_are_verified_by_one_way_or_the_other() -> None:
    ways = []
    for row in rows_of(SHARED):
        body = TextToSqlVerifyRequest.model_validate({**row, "response": response_of(fenced(row["sql"]))})
        scored = await make_server(ScriptedJudge(EQUAL_LABEL, EQUAL_LABEL)).verify(body)
        assert scored.reward == 1.0
        ways.append((row["sql_dialect"], str(scored.verified_by)))
    assert set(ways) == {("sqlite", "execution"), ("mysql", "judge"), ("postgresql", "judge")}


def test_metrics_are_given_by_dialect() -> None:
    rows = [{"reward": float(passed), "sql_dialect": "sqlite", "failure_reason": None} for passed in (1, 0)]
    assert scores_of({"reward": 0.0, "failure_reason": "no_sql_extracted"}) == {
        "accuracy": 0.0,
        "no_sql": 1.0,
    }
    server = make_server()
    metrics = server.compute_metrics([rows])
    assert metrics["sqlite/pass@1[avg-of-2]/accuracy"] == 50.0
    assert "pass@2/accuracy" in server.get_key_metrics(metrics)


def test_a_right_answer_is_rewarded_by_the_whole_gym() -> None:
    for row in rows_of(FOLDER / "data" / "example.jsonl")[:2]:
        (scored,) = run_environment(TextToSqlResourcesServer, [row], [fenced(row["sql"])])
        assert (scored["reward"], scored["verified_by"]) == (1.0, "execution")
