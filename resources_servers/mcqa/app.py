"""Multiple-choice questions: 1 for the expected option, else 0. The README defines the forms of a choice."""

from __future__ import annotations

from typing import Any, ClassVar

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
from nemo_gym.processes.workers import default_pool
from nemo_gym.reward_profile import compute_pass_majority_metrics
from nemo_gym.verify.answers import final_text
from nemo_gym.verify.patterns import last_capture
from nemo_gym.verify.task_rows import invalid_row
from resources_servers.mcqa.choices import (
    ANY_LETTER,
    ChoiceFormat,
    read_choice,
    read_options,
    stated_choice,
)
from resources_servers.mcqa.option_texts import Options


class MCQAResourcesServerConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    grading_mode: ChoiceFormat | None = None
    """Overrides the grading mode of the rows."""
    regex_timeout_s: float = 2.0
    """Seconds that a row's regular expression may search an answer."""


class MCQARunRequest(BaseRunRequest):
    uuid: str | None = None
    options: list[dict[str, str | None]] | None = None
    """One letter with its text per entry. Without options every letter from A to Z is one."""
    expected_answer: str | None = None
    grading_mode: ChoiceFormat = ChoiceFormat.STRICT_BOXED
    template_metadata: dict[str, Any] | None = None
    """`output_regex`, one or a list, is tried before the grading mode; other keys are the dataset's own."""


class MCQAVerifyRequest(MCQARunRequest, BaseVerifyRequest):
    pass


class MCQAVerifyResponse(BaseVerifyResponse):
    expected_answer: str
    extracted_answer: str | None
    """The letter of the chosen option; null when the answer chooses none."""


class MCQAResourcesServer(SimpleResourcesServer):
    config: MCQAResourcesServerConfig
    reads_tokens: ClassVar[bool] = False

    async def check_task(  # type: ignore[override]  # with this environment's own row
        self, body: MCQARunRequest
    ) -> None:
        read_task(body)
        output_patterns(body)

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: MCQAVerifyRequest
    ) -> MCQAVerifyResponse:
        options, expected = read_task(body)
        text = final_text(body.response)
        choice = await self._captured_choice(text, options, output_patterns(body))
        if choice is None:
            choice = read_choice(text, options, self.config.grading_mode or body.grading_mode)
        return MCQAVerifyResponse(
            responses_create_params=body.responses_create_params,
            response=body.response,
            reward=float(choice == expected),
            expected_answer=expected,
            extracted_answer=choice,
        )

    async def _captured_choice(self, text: str, options: Options, patterns: list[str]) -> str | None:
        if not patterns:
            return None
        captured = await default_pool().run(
            last_capture, patterns, text, timeout_s=self.config.regex_timeout_s
        )
        return stated_choice(captured, options) if captured else None

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return compute_pass_majority_metrics(tasks, answer_key="extracted_answer")[0]

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        return key_metrics(agent_metrics, "pass@1[avg-of-{k}]", "pass@{k}", "majority@{k}")


def read_task(row: MCQARunRequest) -> tuple[Options, str]:
    """Return the options and the expected letter. Raises InputError that lists all problems of the row."""
    problems: list[str] = []
    options: Options = ANY_LETTER
    try:
        options = read_options(row.options) if row.options else ANY_LETTER
    except ValueError as error:
        problems.append(f"options: {error}")
    expected = (row.expected_answer or "").strip().upper()
    if not expected:
        problems.append("expected_answer: missing")
    elif expected not in options and not row.options:
        problems.append(f"options: missing, so that only a letter is an answer, and {expected!r} is none")
    elif expected not in options:
        problems.append(f"expected_answer: {expected!r} is none of the options {', '.join(options)}")
    if problems:
        raise invalid_row("; ".join(problems), param=problems[0].partition(":")[0])
    return options, expected


def output_patterns(row: MCQARunRequest) -> list[str]:
    """Return the row's regular expressions in the order of their use."""
    given = (row.template_metadata or {}).get("output_regex") or []
    patterns = [given] if isinstance(given, str) else given
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        raise InputError(
            f"template_metadata.output_regex must be a string or a list of strings, not {given!r}.",
            code="invalid_row",
            param="template_metadata.output_regex",
        )
    return patterns


if __name__ == "__main__":
    MCQAResourcesServer.run_webserver()
