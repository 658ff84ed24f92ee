"""The tasks of the `reasoning_gym` library: one question, one answer, scored by the library's scorer."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from pydantic import Field

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.processes.workers import default_pool
from nemo_gym.reward_profile import compute_pass_majority_metrics, compute_subset_metrics, highest_k_metrics
from nemo_gym.verify.answer_boxes import last_boxed
from nemo_gym.verify.answers import (
    MAX_SEARCHED_CHARS,
    AnswerForm,
    final_answer,
    final_text,
    is_fence,
    last_tagged,
    read_inner_answer,
)
from nemo_gym.verify.typesetting import strip_math_marks, unwrap_text
from resources_servers.reasoning_gym.scoring import LIBRARY, score_answer, task_of

ANSWER_KEY = "extracted_answer"


class ReasoningGymConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    scoring_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds that a scorer may take for one answer; beyond them it scores 0 as the answer's fault."""


class ReasoningGymRunRequest(BaseRunRequest):
    question: str
    answer: str | None
    """None for tasks with many right answers, which are scored by their rules."""
    metadata: dict[str, Any]
    """The input of the scorer; `source_dataset` names the scorer."""
    dataset_config: dict[str, Any] = Field(default_factory=dict)
    """The options of the dataset that differ from the library's defaults: some scorers depend on them."""


class ReasoningGymVerifyRequest(ReasoningGymRunRequest, BaseVerifyRequest):
    pass


class ReasoningGymVerifyResponse(ReasoningGymVerifyRequest, BaseVerifyResponse):
    task_name: str
    score: float
    extracted_answer: str | None


class ReasoningGymResourcesServer(SimpleResourcesServer):
    config: ReasoningGymConfig
    reads_tokens: ClassVar[bool] = False

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: ReasoningGymVerifyRequest
    ) -> ReasoningGymVerifyResponse:
        entry = {"question": body.question, "answer": body.answer, "metadata": body.metadata}
        task_name = task_of(entry)
        answer = extract_answer(final_text(body.response))
        score = await default_pool().run(
            score_answer,
            json.dumps(entry),
            json.dumps(body.dataset_config, sort_keys=True),
            answer,
            timeout_s=self.config.scoring_timeout_s,
            imports=(LIBRARY,),
        )
        return ReasoningGymVerifyResponse(
            **dict(body), reward=score, task_name=task_name, score=score, extracted_answer=answer
        )

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        overall = compute_pass_majority_metrics(tasks, answer_key=ANSWER_KEY)[0]
        return overall | compute_subset_metrics(tasks, "task_name", answer_key=ANSWER_KEY)

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        key_metrics = super().get_key_metrics(agent_metrics)
        for family in ("pass@1[avg-of-{k}]", "pass@{k}", "majority@{k}"):
            key_metrics |= highest_k_metrics(agent_metrics, family, score_names=["accuracy"])
        return key_metrics


def extract_answer(text: str) -> str | None:
    r"""Return the last `<answer>…</answer>`, else the last `\boxed{…}`, else that of the last line, else the text.

    None for an empty text. Answers may have many lines, so an "Answer:" with text on later lines marks nothing.
    """
    tagged = last_tagged(text)
    if tagged is not None:
        return read_inner_answer(tagged)
    marked = read_inner_answer(last_boxed(text) or "") or _last_line_answer(text)
    return unwrap_text(strip_math_marks(marked)) if marked else text.strip() or None


def _last_line_answer(text: str) -> str | None:
    """Return the answer on the last line of a text, or below a bare "Answer:" that ends it."""
    lines = [line for line in text[-MAX_SEARCHED_CHARS:].splitlines() if line.strip() and not is_fence(line)]
    forms = (AnswerForm.LINE,)
    is_marked_above = len(lines) > 1 and final_answer(lines[-2], forms) is None
    answer = final_answer("\n".join(lines[-2:] if is_marked_above else lines[-1:]), forms)
    return answer.text if answer else None


if __name__ == "__main__":
    ReasoningGymResourcesServer.run_webserver()
