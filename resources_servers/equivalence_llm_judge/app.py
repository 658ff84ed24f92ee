"""Free-form answers, compared with a reference by a judge model. The README defines the reward."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field, PositiveFloat, PrivateAttr, model_validator

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.metrics import key_metrics
from nemo_gym.processes.workers import default_pool
from nemo_gym.prompt import PromptConfig
from nemo_gym.responses.wire import read_field
from nemo_gym.reward_profile import compute_pass_majority_metrics
from nemo_gym.verify.answers import final_text
from nemo_gym.verify.equivalence_judge import (
    DIFFERENT_LABEL,
    EQUAL_LABEL,
    Comparison,
    EquivalenceJudge,
)
from nemo_gym.verify.judge import Judge, JudgeEvaluation, JudgeOptions, build_messages, read_template
from nemo_gym.verify.patterns import last_capture
from nemo_gym.verify.task_rows import invalid_row

FOLDER = Path(__file__).parent
FIELDS = ("question", "expected_answer", "generated_answer")


class LLMJudgeResourcesServerConfig(BaseResourcesServerConfig, JudgeOptions):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    judge_system_message: str | None = None
    judge_prompt_template_fpath: str = "prompt_templates/equivalence_llm_judge.txt"
    """A text with the fields {question}, {expected_answer} and {generated_answer}."""
    judge_equal_label: str = EQUAL_LABEL
    judge_not_equal_label: str = DIFFERENT_LABEL
    question_extract_regex: str | None = None
    """Extracts the question from the last user message when the row has no `question`."""
    response_extract_regex: str | None = None
    """Extracts the answer from the last message: the first group of the last match."""
    regex_timeout_s: PositiveFloat = 2.0
    check_twice_swap: bool = False
    """True if an answer must be found equal in both orders."""
    reward_if_swap_fails: float = 0.0
    use_per_record_regex: bool = True
    """True if `template_metadata.output_regex` of a row overrides `response_extract_regex`."""
    extraction_length_threshold: int | None = 120
    """References beyond this length are compared with the whole answer, once."""
    check_full_generation_on_fail: bool = True
    """True to judge the whole answer when the part that the row's expression extracts is different."""
    reward_if_full_generation_succeeds: float = 0.5

    @model_validator(mode="after")
    def _require_a_judge(self) -> Self:
        if self.judge_model_server is None:
            raise ValueError("judge_model_server: name the model server to ask")
        return self


class LLMJudgeRunRequest(BaseRunRequest):
    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)

    question: str | None = None
    expected_answer: str | None = None
    metadata: dict[str, Any] | None = None
    """May hold the `expected_answer` instead."""
    template_metadata: dict[str, Any] | None = None


class LLMJudgeVerifyRequest(LLMJudgeRunRequest, BaseVerifyRequest):
    pass


class LLMJudgeVerifyResponse(BaseVerifyResponse):
    expected_answer: str
    extracted_answer: str | None
    """The judged text; null when there is no answer and the judge was not asked."""
    judge_evaluations: list[JudgeEvaluation] = Field(default_factory=list)


class LLMJudgeResourcesServer(SimpleResourcesServer):
    config: LLMJudgeResourcesServerConfig
    reads_tokens: ClassVar[bool] = False

    _judge: EquivalenceJudge = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        config = self.config
        prompt = PromptConfig(
            user=read_template(config.judge_prompt_template_fpath, FOLDER),
            system=config.judge_system_message or None,
        )
        build_messages(
            prompt, dict.fromkeys(FIELDS, ""), {}
        )  # a template with other fields fails here, not later
        self._judge = EquivalenceJudge(
            Judge(config),
            prompt,
            first_field="expected_answer",
            second_field="generated_answer",
            equal_label=config.judge_equal_label,
            different_label=config.judge_not_equal_label,
            check_twice_swap=config.check_twice_swap,
        )

    async def check_task(  # type: ignore[override]  # with this environment's own row
        self, body: LLMJudgeRunRequest
    ) -> None:
        expected_answer_of(body)

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: LLMJudgeVerifyRequest
    ) -> LLMJudgeVerifyResponse:
        expected = expected_answer_of(body)
        text = final_text(body.response)
        scored = LLMJudgeVerifyResponse(
            responses_create_params=body.responses_create_params,
            response=body.response,
            reward=0.0,
            expected_answer=expected,
            extracted_answer=None,
        )
        if not text:
            return scored
        pattern = self._row_pattern(body)
        is_long = pattern is not None and self._is_long(expected)
        answer = await self._extract(text, None if is_long else pattern or self.config.response_extract_regex)
        scored.extracted_answer = answer
        question = await self._question(body)
        comparison = await self._compare(question, expected, answer, may_swap=not is_long)
        scored.judge_evaluations.extend(comparison.evaluations)
        scored.reward = self._reward(comparison)
        is_rescued = pattern is not None and not is_long and self.config.check_full_generation_on_fail
        if not comparison.is_equal_first and is_rescued and text != answer:
            whole = await self._compare(question, expected, text, may_swap=False)
            scored.judge_evaluations.extend(whole.evaluations)
            scored.reward = self.config.reward_if_full_generation_succeeds if whole.is_equal else 0.0
        return scored

    async def _compare(self, question: str, expected: str, answer: str, *, may_swap: bool) -> Comparison:
        judge = self._judge if may_swap else replace(self._judge, check_twice_swap=False)
        return await judge.compare(
            self.server_client, expected=expected, answer=answer, fields={"question": question}
        )

    def _reward(self, comparison: Comparison) -> float:
        if comparison.is_equal:
            return 1.0
        return self.config.reward_if_swap_fails if comparison.is_equal_first else 0.0

    def _row_pattern(self, body: LLMJudgeRunRequest) -> str | None:
        pattern = (body.template_metadata or {}).get("output_regex")
        return str(pattern) if pattern and self.config.use_per_record_regex else None

    def _is_long(self, expected: str) -> bool:
        longest = self.config.extraction_length_threshold
        return longest is not None and len(expected) > longest

    async def _extract(self, text: str, pattern: str | None) -> str:
        """Return the part of `text` that the pattern extracts; all of it without a pattern or a match."""
        if pattern is None:
            return text
        flags = int(re.MULTILINE | re.DOTALL)
        found = await default_pool().run(
            last_capture, [pattern], text, flags, timeout_s=self.config.regex_timeout_s
        )
        return found or text

    async def _question(self, body: LLMJudgeRunRequest) -> str:
        if body.question:
            return body.question
        return await self._extract(last_user_text(body), self.config.question_extract_regex)

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return compute_pass_majority_metrics(tasks)[0]

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        return key_metrics(agent_metrics, "pass@1[avg-of-{k}]", "pass@{k}")


def expected_answer_of(row: LLMJudgeRunRequest) -> str:
    """Return the reference answer. Raises InputError when the row has none."""
    given = row.expected_answer or (row.metadata or {}).get("expected_answer")
    if given is None or not str(given).strip():
        raise invalid_row("expected_answer: missing", param="expected_answer")
    return str(given)


def last_user_text(row: BaseRunRequest) -> str:
    """Return the text of the last user message; "" when there is none."""
    given = row.responses_create_params.input
    if isinstance(given, str):
        return given
    for item in reversed(given):
        if read_field(item, "role") == "user":
            content = read_field(item, "content")
            if isinstance(content, str):
                return content
            return "".join(read_field(part, "text") or "" for part in content or ())
    return ""


if __name__ == "__main__":
    LLMJudgeResourcesServer.run_webserver()
