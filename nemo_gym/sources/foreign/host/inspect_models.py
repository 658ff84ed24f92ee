"""The models of one attempt of Inspect: that of the policy, and one for each role.

Inspect falls back on the model under evaluation where a role has no model, and where a scorer names none. Here the
former is an error that names the role, and the latter is the grader's model: no call but the policy's own is in the
policy's record.
"""

from __future__ import annotations

from typing import Any

from inspect_ai.hooks import Hooks, SampleScoring, SampleStart, hooks
from inspect_ai.model import GenerateConfig, Model, ModelAPI, get_model, modelapi
from inspect_ai.model._model import init_model_roles
from inspect_ai.model._providers.openai_compatible import OpenAICompatibleAPI
from inspect_ai.util import LimitExceededError

from .faults import HostError

POLICY = "agent"
_GRADER = "grader"


class SeatAPI(OpenAICompatibleAPI):  # type: ignore[misc]
    """A model behind the gym's port. The attempt counts its calls."""

    attempt: SampleModels
    seat: str

    async def generate(self, input: Any, tools: Any, tool_choice: Any, config: GenerateConfig) -> Any:
        other = self.attempt.find_stand_in(self)
        if other is not None:
            return await other.generate(input, tools, tool_choice, config)
        self.attempt.count(self.seat)
        try:
            answer = await super().generate(input, tools, tool_choice, config)
        except Exception as error:
            self.attempt.note_failure(self.seat, error)
            raise
        failed = answer[0] if isinstance(answer, tuple) else None
        if isinstance(failed, Exception):
            self.attempt.note_failure(self.seat, failed)
        return answer


@modelapi(name="gym")  # type: ignore[untyped-decorator]
def gym() -> type[ModelAPI]:
    return SeatAPI


class SampleModels:
    """The models, their calls, and what went wrong beside the sample."""

    def __init__(self, models: dict[str, dict[str, str]], turns: int | None) -> None:
        self.models: dict[str, Model] = {}
        self.calls = dict.fromkeys(models, 0)
        self.is_scoring = False
        self.problem: HostError | None = None
        self._turns = turns
        for name, given in models.items():
            model = get_model(
                f"gym/gym/{given['model']}",
                base_url=given["base_url"],
                api_key=given["key"],
                memoize=False,
                max_retries=0,
            )
            assert isinstance(model.api, SeatAPI)
            model.api.attempt, model.api.seat = self, name
            self.models[name] = model
        AttemptHooks.attempt = self

    def find_stand_in(self, api: SeatAPI) -> ModelAPI | None:
        """Return the grader's model for a scorer that asks the policy's."""
        grader = self.models.get(_GRADER)
        return grader.api if self.is_scoring and api.seat == POLICY and grader is not None else None

    def count(self, seat: str) -> None:
        """Count a call. Raises `LimitExceededError` at the limit of the policy's."""
        if seat == POLICY and self._turns is not None and self.calls[seat] >= self._turns:
            told = f"Turn limit reached: {self._turns} model calls"
            raise LimitExceededError("turn", value=self._turns, limit=self._turns, message=told)
        self.calls[seat] += 1

    def note_failure(self, seat: str, error: Exception) -> None:
        """Keep the first failed call: an attempt with one has no reward, whatever the solver made of it."""
        if self.problem is None:
            told = f"a model call of {seat} failed: {type(error).__name__}: {error}"
            self.problem = HostError("provider_error", told, retryable=True)

    def find_role(self, role: str) -> Any:
        if role not in self.models:
            told = f"the task asks for the model role {role!r}: +options={{roles: [{role}]}} gives it a model"
            self.problem = HostError("unsupported", told)
            raise self.problem
        return self.models[role]


class RoleTable(dict[str, Any]):
    """The models of roles. One that is not there is an error, where Inspect would take the policy's."""

    attempt: SampleModels

    def get(self, role: str, default: Any = None) -> Any:
        return self.attempt.find_role(role)


@hooks(name="gym", description="Phases of an attempt")
class AttemptHooks(Hooks):  # type: ignore[misc]
    """Runs within the sample's own task, before its solver and before its scorers."""

    attempt: SampleModels | None = None

    async def on_sample_start(self, data: SampleStart) -> None:
        assert self.attempt is not None
        roles = RoleTable({name: model for name, model in self.attempt.models.items() if name != POLICY})
        roles.attempt = self.attempt
        init_model_roles(roles)

    async def on_sample_scoring(self, data: SampleScoring) -> None:
        assert self.attempt is not None
        self.attempt.is_scoring = True
