"""Mathematics with one right answer. math-verify compares it, and a judge may accept answers that it rejects.

The README defines the reward.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt, PrivateAttr, model_validator

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.metrics import key_metrics
from nemo_gym.reward_profile import compute_pass_majority_metrics
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.verdict import read_reward
from nemo_gym.verify.answers import AnswerForm, final_text
from nemo_gym.verify.equivalence_judge import Comparison, EquivalenceJudge
from nemo_gym.verify.judge import JudgeEvaluation, JudgeOptions
from nemo_gym.verify.task_rows import refuse_unequalled
from resources_servers.math_with_judge.judging import make_judge
from resources_servers.math_with_judge.math_equality import TIMEOUT_S, Equality, Rejection, compare
from resources_servers.math_with_judge.reading import find_math_answer


class LibraryJudgeMathResourcesServerConfig(BaseResourcesServerConfig, JudgeOptions):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    should_use_judge: bool = True
    """True if a judge decides on answers that math-verify rejects."""
    answer_forms: tuple[AnswerForm, ...] = tuple(AnswerForm)
    """The accepted marks of a final answer, in order of precedence."""
    library_verifier_timeout_seconds: PositiveFloat = TIMEOUT_S
    """Seconds that a comparison may take; an answer that takes longer is not accepted."""
    library_verifier_max_concurrency: PositiveInt | None = None
    """Accepted without effect: the worker pool runs one comparison per core."""

    @model_validator(mode="after")
    def _require_a_judge_to_use(self) -> Self:
        if self.should_use_judge and self.judge_model_server is None:
            raise ValueError("should_use_judge needs judge_model_server; name one, or set it to false")
        return self


class LibraryJudgeMathRunRequest(BaseRunRequest):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    question: str
    expected_answer: Annotated[str, Field(pattern=r"\S")]


class LibraryJudgeMathVerifyRequest(LibraryJudgeMathRunRequest, BaseVerifyRequest):
    pass


class LibraryJudgeMathVerifyResponse(BaseVerifyResponse):
    expected_answer: str
    extracted_answer: str | None
    library_reward: float
    """1 if math-verify found the answers equal, regardless of the judge."""
    library_reason: str | None
    """The reason for a `library_reward` of 0: a `Rejection` such as `undecided`, or the kind of an `AnswerFault`."""
    judge_evaluations: list[JudgeEvaluation] | None
    """The judge's questions and answers; null when it was not asked."""


class LibraryJudgeMathResourcesServer(SimpleResourcesServer):
    config: LibraryJudgeMathResourcesServerConfig
    reads_tokens: ClassVar[bool] = False

    _judge: EquivalenceJudge = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._judge = make_judge(self.config)

    async def check_task(  # type: ignore[override]  # with this environment's own row
        self, body: LibraryJudgeMathRunRequest
    ) -> None:
        async def is_solved_by(text: str) -> bool:
            answer = self.extract(text, body.expected_answer)
            return (await self.compare(body.expected_answer, answer)).is_equal

        if not self.config.should_use_judge:  # a judge reads any form of the expected answer
            await refuse_unequalled(body.expected_answer, is_solved_by)

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: LibraryJudgeMathVerifyRequest
    ) -> LibraryJudgeMathVerifyResponse:
        answer = self.extract(final_text(body.response), body.expected_answer)
        library = await self.compare(body.expected_answer, answer)
        comparison = None
        if answer is not None and not library.is_equal and self.config.should_use_judge:
            comparison = await self._ask_judge(body, answer)
        return LibraryJudgeMathVerifyResponse(
            responses_create_params=body.responses_create_params,
            response=body.response,
            reward=float(library.is_equal or (comparison is not None and comparison.is_equal)),
            expected_answer=body.expected_answer,
            extracted_answer=answer,
            library_reward=float(library.is_equal),
            library_reason=library.reason,
            judge_evaluations=None if comparison is None else list(comparison.evaluations),
        )

    def extract(self, text: str, expected: str) -> str | None:
        """Return the final answer in the last message, or None, with its unit where the expected answer has one."""
        return find_math_answer(text, expected, self.config.answer_forms)

    async def compare(self, expected: str, answer: str | None) -> Equality:
        """Return math-verify's comparison of the answers, without the judge."""
        if answer is None:
            return Equality(False, Rejection.NO_ANSWER)
        return await compare(expected, answer, timeout_s=self.config.library_verifier_timeout_seconds)

    async def _ask_judge(self, body: LibraryJudgeMathRunRequest, answer: str) -> Comparison:
        return await self._judge.compare(
            self.server_client,
            expected=body.expected_answer,
            answer=answer,
            fields={"question": body.question},
        )

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return compute_pass_majority_metrics(tasks, scores_of, answer_key="extracted_answer")[0]

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        without_answers = key_metrics(agent_metrics, "pass@{k}", "majority@{k}", exclude_names=["no_answer"])
        return key_metrics(agent_metrics, "pass@1[avg-of-{k}]") | without_answers


def scores_of(row: AnyRow) -> dict[str, float | None]:
    """Return the scores for the metrics: the reward, math-verify's verdict, and the reward of judged answers."""
    scores = {"accuracy": read_reward(row)}
    if row.get("library_reward") is not None:
        scores["symbolic_accuracy"] = row["library_reward"]
    if row.get("judge_evaluations") is not None:
        scores["judge_accuracy"] = read_reward(row)
    return scores


if __name__ == "__main__":
    LibraryJudgeMathResourcesServer.run_webserver()
