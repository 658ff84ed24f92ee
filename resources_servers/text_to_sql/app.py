"""Questions about a database; the answer is a query that is run or judged. The README defines the reward."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt, PrivateAttr, model_validator

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.failures import InputError
from nemo_gym.metrics import key_metrics
from nemo_gym.prompt import PromptConfig
from nemo_gym.reward_profile import compute_pass_majority_metrics, compute_subset_metrics
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_failure_reason
from nemo_gym.rows.verdict import read_reward
from nemo_gym.verify.answers import final_text
from nemo_gym.verify.code_blocks import code_blocks, final_code
from nemo_gym.verify.equivalence_judge import DIFFERENT_LABEL, EQUAL_LABEL, EquivalenceJudge
from nemo_gym.verify.judge import Judge, JudgeEvaluation, JudgeOptions
from nemo_gym.verify.task_rows import invalid_row
from resources_servers.text_to_sql.judging import SYSTEM, TEMPLATE
from resources_servers.text_to_sql.sql_execution import Gold, SqlLimits, compare_with_gold, run_gold

NO_SQL = "no_sql_extracted"
JUDGED_DIFFERENT = "judge_evaluation_failed"
DIALECTS = {"sqlite": "sqlite", "sqlite3": "sqlite", "mysql": "mysql"} | dict.fromkeys(
    ("postgresql", "postgres", "pg"), "postgresql"
)
SQL_LANGUAGES = ("sql", *DIALECTS)


class Verification(StrEnum):
    """The method of verification."""

    AUTO = "auto"
    """Run the query when there is a SQLite database and the gold query returns rows; else ask the judge, if one is
    configured."""
    EXECUTION = "execution"
    JUDGE = "judge"


class TextToSqlResourcesServerConfig(BaseResourcesServerConfig, JudgeOptions):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    verification: Verification = Verification.AUTO
    query_timeout_s: PositiveFloat = 5.0
    """CPU seconds of each query on each database."""
    max_rows: PositiveInt = 10_000
    judge_system_message: str = SYSTEM
    judge_equal_label: str = EQUAL_LABEL
    judge_not_equal_label: str = DIFFERENT_LABEL
    check_twice_swap: bool = True
    reward_if_swap_fails: float = 0.0

    @model_validator(mode="after")
    def _require_a_judge_to_ask(self) -> Self:
        if self.verification is Verification.JUDGE and self.judge_model_server is None:
            raise ValueError("verification: judge needs judge_model_server; name one")
        return self


class TextToSqlRunRequest(BaseRunRequest):
    model_config = ConfigDict(extra="allow")

    uuid: str | int | None = None
    sql: str
    """The gold query."""
    sql_dialect: str
    sql_context: str = ""
    """The SQL that builds the database."""
    sql_prompt: str
    """The question."""
    sql_test_contexts: list[str] = Field(default_factory=list)
    """Other databases with the same schema that the prompt does not show; results must be equal on them too."""
    ignore_order: bool | None = None
    """True if the order of rows is ignored; null: it is ignored unless the gold query sorts them."""
    metadata: dict[str, Any] | None = None


class TextToSqlVerifyRequest(TextToSqlRunRequest, BaseVerifyRequest):
    pass


class TextToSqlVerifyResponse(BaseVerifyResponse):
    extracted_sql: str | None
    sql_dialect: str
    verified_by: Verification | None
    """`execution` or `judge`; null when the answer has no query."""
    failure_reason: str | None
    """The reason for a reward below 1: `no_sql_extracted`, `judge_evaluation_failed`, or that of a `SqlVerdict`."""
    failure_detail: str | None = None
    judge_passed: bool = False
    judge_evaluations: list[JudgeEvaluation] = Field(default_factory=list)


class TextToSqlResourcesServer(SimpleResourcesServer):
    config: TextToSqlResourcesServerConfig
    reads_tokens: ClassVar[bool] = False

    _judge: EquivalenceJudge = PrivateAttr()
    _limits: SqlLimits = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        config = self.config
        self._limits = SqlLimits(seconds=config.query_timeout_s, rows=config.max_rows)
        self._judge = EquivalenceJudge(
            Judge(config),
            PromptConfig(user=TEMPLATE, system=config.judge_system_message or None),
            first_field="first_answer",
            second_field="second_answer",
            equal_label=config.judge_equal_label,
            different_label=config.judge_not_equal_label,
            check_twice_swap=config.check_twice_swap,
        )

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: TextToSqlVerifyRequest
    ) -> TextToSqlVerifyResponse:
        dialect = dialect_of(body)
        gold = await self._gold(body, dialect)  # first, because a broken task must not score 0
        query = extract_sql(final_text(body.response))
        scored = TextToSqlVerifyResponse(
            responses_create_params=body.responses_create_params,
            response=body.response,
            reward=0.0,
            extracted_sql=query,
            sql_dialect=dialect,
            verified_by=None,
            failure_reason=NO_SQL,
        )
        if query is None:
            return scored
        if gold is not None:
            return await self._run(body, query, gold, scored)
        return await self._ask(body, dialect, query, scored)

    async def _gold(self, body: TextToSqlRunRequest, dialect: str) -> Gold | None:
        """Return the results of the gold query, or None when the judge decides. Raises InputError that names the field
        when the query is broken or no method can decide."""
        if not body.sql.strip():
            raise unusable("sql", "is empty")
        verification = self.config.verification
        may_judge = verification is not Verification.EXECUTION and self.config.judge_model_server is not None
        is_runnable = dialect == "sqlite" and bool(body.sql_context.strip())
        if verification is Verification.JUDGE or (may_judge and not is_runnable):
            return None
        contexts = contexts_of(body)
        gold = await run_gold(
            list(contexts.values()), body.sql, self._limits, query_field="sql", context_fields=list(contexts)
        )
        if gold.has_rows:
            return gold
        if may_judge:
            return None
        raise unusable("sql", "returns no rows, so nearly every query would match")

    async def _run(
        self, body: TextToSqlRunRequest, query: str, gold: Gold, scored: TextToSqlVerifyResponse
    ) -> TextToSqlVerifyResponse:
        verdict = await compare_with_gold(
            list(contexts_of(body).values()), query, gold, ignore_order=body.ignore_order, limits=self._limits
        )
        scored.verified_by = Verification.EXECUTION
        scored.reward = float(verdict.is_equal)
        scored.failure_reason, scored.failure_detail = verdict.reason, verdict.detail or None
        return scored

    async def _ask(
        self, body: TextToSqlRunRequest, dialect: str, query: str, scored: TextToSqlVerifyResponse
    ) -> TextToSqlVerifyResponse:
        fields = {"sql_dialect": dialect, "sql_context": body.sql_context, "sql_prompt": body.sql_prompt}
        found = await self._judge.compare(self.server_client, expected=body.sql, answer=query, fields=fields)
        scored.verified_by = Verification.JUDGE
        scored.judge_passed, scored.judge_evaluations = found.is_equal, list(found.evaluations)
        scored.failure_reason = None if found.is_equal else JUDGED_DIFFERENT
        fallback = self.config.reward_if_swap_fails if found.is_equal_first else 0.0
        scored.reward = 1.0 if found.is_equal else fallback
        return scored

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        metrics = compute_pass_majority_metrics(tasks, scores_of)[0]
        return metrics | compute_subset_metrics(tasks, "sql_dialect", scores_of)

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        return key_metrics(agent_metrics, "pass@1[avg-of-{k}]", "pass@{k}", score_names=["accuracy"])


def scores_of(row: AnyRow) -> dict[str, float | None]:
    """Return the scores for the metrics."""
    return {"accuracy": read_reward(row), "no_sql": float(read_failure_reason(row) == NO_SQL)}


def dialect_of(row: TextToSqlRunRequest) -> str:
    """Return the canonical name of the dialect. Raises InputError for an unknown one."""
    dialect = DIALECTS.get(row.sql_dialect.strip().lower())
    if dialect is None:
        known = ", ".join(dict.fromkeys(DIALECTS.values()))
        raise unusable("sql_dialect", f"is {row.sql_dialect!r}; known are {known}")
    return dialect


def contexts_of(row: TextToSqlRunRequest) -> dict[str, str]:
    """Return the databases on which the queries must agree, by field."""
    others = {f"sql_test_contexts[{index}]": sql for index, sql in enumerate(row.sql_test_contexts)}
    return {"sql_context": row.sql_context, **others}


def unusable(field: str, problem: str) -> InputError:
    """Return the error for a row that cannot grade any answer."""
    remedy = "Correct it in the dataset, or configure a judge to verify the task."
    return invalid_row(f"{field} {problem}", param=field, remedy=remedy)


_STATEMENT = re.compile(r"\s*(?:--[^\n]*\n\s*)*(?:select|with|values|insert|update|delete)\b", re.IGNORECASE)


def extract_sql(text: str) -> str | None:
    """Return the query in an answer: the last fenced block of SQL, or an unfenced answer that starts like SQL."""
    code = final_code(text, SQL_LANGUAGES)
    if code is None or (not code_blocks(text) and not _STATEMENT.match(code)):
        return None
    return code.strip()


if __name__ == "__main__":
    TextToSqlResourcesServer.run_webserver()
