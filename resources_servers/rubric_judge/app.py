"""Answers scored by a rubric: weighted yes-or-no questions to a judge model. The README defines the reward."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import AliasChoices, BaseModel, Field, PrivateAttr

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.prompt import load_prompt_config
from nemo_gym.responses.wire import read_field
from nemo_gym.reward_profile import compute_pass_majority_metrics
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.verdict import read_reward
from nemo_gym.verify.answers import final_text
from nemo_gym.verify.judge import Judge, JudgeEvaluation, Judgement, JudgeOptions, label_reader
from resources_servers.rubric_judge.rubric import Criterion, Rubric, rubric_reward

LABELS = {"[[YES]]": "YES", "[[NO]]": "NO"}
NO_REFERENCE = "(There is none.)"


class GradingMode(StrEnum):
    FRACTION = "fraction"
    """The fraction of the rubric's weights."""
    BINARY = "binary"
    """1 for the full fraction, else 0."""


class RubricJudgeConfig(BaseResourcesServerConfig, JudgeOptions):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    judge_prompt_config: str = "resources_servers/rubric_judge/prompts/criterion.yaml"
    """The prompt for a criterion: a YAML file with `user` and `system`, which contain `{task}`, `{reference}`,
    `{answer}` and `{criterion}` and ask for one of the labels [[YES]] and [[NO]]."""


class RubricJudgeRunRequest(BaseRunRequest):
    rubric: Rubric = Field(min_length=1)
    grading_mode: GradingMode = GradingMode.FRACTION
    task: str | None = Field(
        default=None, validation_alias=AliasChoices("task", "context", "prompt", "question")
    )
    """The task for the judge; by default the policy's input conversation."""
    reference_answer: str | None = Field(
        default=None, validation_alias=AliasChoices("reference_answer", "reference_response")
    )


class RubricJudgeVerifyRequest(RubricJudgeRunRequest, BaseVerifyRequest):
    pass


class CriterionResult(BaseModel):
    criterion: Criterion
    is_met: bool
    evaluations: list[JudgeEvaluation]
    """The judge's questions and answers; empty when there was no answer to judge."""


class RubricJudgeVerifyResponse(RubricJudgeVerifyRequest, BaseVerifyResponse):
    criteria_met: float
    """The unweighted fraction of the criteria that are satisfied; a fault is satisfied when it is absent."""
    criterion_results: list[CriterionResult]


class RubricJudgeResourcesServer(SimpleResourcesServer):
    config: RubricJudgeConfig
    reads_tokens: ClassVar[bool] = False
    _judge: Judge = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._judge = Judge(self.config)

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: RubricJudgeVerifyRequest
    ) -> RubricJudgeVerifyResponse:
        results = await self._results(body)
        share = rubric_reward(body.rubric, [result.is_met for result in results])
        return RubricJudgeVerifyResponse(
            **dict(body),
            reward=share if body.grading_mode is GradingMode.FRACTION else float(share == 1.0),
            criteria_met=sum(is_good(result) for result in results) / len(results),
            criterion_results=results,
        )

    async def _results(self, body: RubricJudgeVerifyRequest) -> list[CriterionResult]:
        """Judge each criterion. Raises JudgeError when the judge failed for any of them."""
        answer = final_text(body.response)
        if not answer:
            return [CriterionResult(criterion=one, is_met=False, evaluations=[]) for one in body.rubric]
        asked = (self._ask(criterion, body, answer) for criterion in body.rubric)
        # All questions run to their end: verdicts are cached, so that a retry repeats only the failed ones.
        judged = await asyncio.gather(*asked, return_exceptions=True)
        results = []
        for criterion, verdict in zip(body.rubric, judged, strict=True):
            if isinstance(verdict, BaseException):
                raise verdict
            is_met = verdict.value == criterion.pass_criteria
            results.append(
                CriterionResult(criterion=criterion, is_met=is_met, evaluations=list(verdict.evaluations))
            )
        return results

    async def _ask(self, criterion: Criterion, body: RubricJudgeVerifyRequest, answer: str) -> Judgement[str]:
        return await self._judge.ask(
            self.server_client,
            load_prompt_config(self.config.judge_prompt_config),
            fields={"criterion": criterion.criterion},
            untrusted={
                "task": body.task or conversation_of(body.responses_create_params.input),
                "reference": body.reference_answer or NO_REFERENCE,
                "answer": answer,
            },
            read=label_reader(LABELS),
        )

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return compute_pass_majority_metrics(tasks, scores_of)[0]


def is_good(result: CriterionResult) -> bool:
    """Return whether a merit is met or a fault is absent."""
    return result.is_met == (result.criterion.weight > 0)


def scores_of(row: AnyRow) -> dict[str, float | None]:
    return {"accuracy": read_reward(row), "criteria_met": row["criteria_met"]}


def conversation_of(items: object) -> str:
    """Return the policy's input conversation as text, without items that are not messages."""
    if isinstance(items, str):
        return items
    said = []
    for item in items if isinstance(items, list) else []:
        role, content = read_field(item, "role"), read_field(item, "content")
        parts = content if isinstance(content, list) else [{"text": content}]
        text = "".join(read_field(part, "text") or "" for part in parts)
        if role and text:
            said.append(f"[{role}]\n{text}")
    return "\n\n".join(said)


if __name__ == "__main__":
    RubricJudgeResourcesServer.run_webserver()
