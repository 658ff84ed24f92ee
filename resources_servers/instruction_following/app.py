"""Checkable instructions about the form of an answer. The README defines the reward."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

from pydantic import Field, model_validator

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.processes.workers import default_pool
from nemo_gym.reward_profile import compute_pass_majority_metrics, highest_k_metrics
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.verdict import read_reward
from nemo_gym.verify.answers import final_text
from resources_servers.instruction_following.instructions.evaluation import evaluate, read_instructions


class GradingMode(StrEnum):
    """The combination of the verdicts on the instructions to one score."""

    BINARY = "binary"
    """1 if all instructions are followed, else 0."""
    FRACTION = "fraction"
    """The fraction of followed instructions."""


class Evaluation(StrEnum):
    """The verdict that counts; see `resources_servers.instruction_following.instructions.evaluation`."""

    STRICT = "strict"
    LOOSE = "loose"


class InstructionFollowingConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    evaluation: Evaluation = Evaluation.STRICT
    """The verdict that the reward is based on; both are reported."""
    checking_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds that the checks of one answer may take; beyond them the attempt fails without a reward."""


class InstructionFollowingRunRequest(BaseRunRequest):  # type: ignore[no-redef]  # a field is called kwargs
    id: int | str | None = None
    instruction_id_list: list[str]
    kwargs: list[dict[str, Any] | None]
    """The parameters of each instruction; nulls count as absent."""
    prompt: str = ""
    """The task without the chat messages; for readers only, the verifier ignores it."""
    grading_mode: GradingMode = GradingMode.BINARY

    @model_validator(mode="before")
    @classmethod
    def _unwrap_verifier_metadata(cls, row: object) -> object:
        """Merge `verifier_metadata`, where newer datasets keep the verifier's fields, into the row."""
        metadata = row.get("verifier_metadata") if isinstance(row, dict) else None
        return {**row, **metadata} if isinstance(row, dict) and isinstance(metadata, dict) else row


class InstructionFollowingVerifyRequest(InstructionFollowingRunRequest, BaseVerifyRequest):  # type: ignore[no-redef]
    pass


class InstructionFollowingVerifyResponse(InstructionFollowingVerifyRequest, BaseVerifyResponse):  # type: ignore[no-redef]
    reward_loose: float
    """The reward according to the loose verdicts."""
    follow_all_instructions: bool
    follow_instruction_list: list[bool]
    follow_all_instructions_loose: bool
    follow_instruction_list_loose: list[bool]


class InstructionFollowingResourcesServer(SimpleResourcesServer):
    config: InstructionFollowingConfig
    reads_tokens: ClassVar[bool] = False

    async def check_task(  # type: ignore[override]  # with this environment's own row
        self, body: InstructionFollowingRunRequest
    ) -> None:
        read_instructions(body.instruction_id_list, body.kwargs)

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: InstructionFollowingVerifyRequest
    ) -> InstructionFollowingVerifyResponse:
        instructions = read_instructions(body.instruction_id_list, body.kwargs)
        verdict = await default_pool().run(
            evaluate, instructions, final_text(body.response), timeout_s=self.config.checking_timeout_s
        )
        counted = verdict.loose if self.config.evaluation is Evaluation.LOOSE else verdict.strict
        return InstructionFollowingVerifyResponse(
            **dict(body),
            reward=score(counted, body.grading_mode),
            reward_loose=score(verdict.loose, body.grading_mode),
            follow_all_instructions=all(verdict.strict),
            follow_instruction_list=verdict.strict,
            follow_all_instructions_loose=all(verdict.loose),
            follow_instruction_list_loose=verdict.loose,
        )

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return compute_pass_majority_metrics(tasks, scores_of)[0]

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        return super().get_key_metrics(agent_metrics) | highest_k_metrics(agent_metrics, "pass@1[avg-of-{k}]")


def score(followed: list[bool], mode: GradingMode) -> float:
    """Return the score of the verdicts on one or more instructions."""
    return float(all(followed)) if mode is GradingMode.BINARY else sum(followed) / len(followed)


def scores_of(row: AnyRow) -> dict[str, float | None]:
    """Return the accuracies that IFEval reports: per prompt and per instruction, strict and loose."""
    strict, loose = row["follow_instruction_list"], row["follow_instruction_list_loose"]
    return {
        "accuracy": read_reward(row),
        "prompt_strict": float(all(strict)),
        "prompt_loose": float(all(loose)),
        "instruction_strict": sum(strict) / len(strict),
        "instruction_loose": sum(loose) / len(loose),
    }


if __name__ == "__main__":
    InstructionFollowingResourcesServer.run_webserver()
