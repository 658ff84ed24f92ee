"""Step-style environments: `reset` opens an episode, and `step` answers each model response.

Such an environment scores each step: `step` returns a reward and the end of the episode, so that `verify` is not used.
`gymnasium_agent` drives the episode. Environments import these names from `resources_servers.gymnasium`.

    POST /reset   task row                  → {observation, info}
    POST /step    task row with `response`  → {observation, reward, terminated, truncated, info}

A result that cannot be dumped because of the answer ends the episode with a reward of at most 0 for that step; `info`
has `answer_fault` and `answer_fault_detail` (`nemo_gym.verify.answer_faults`). An exception of `step` is a failure.

`response` is the model's last response. An observation is the next input of the policy. The outputs of the policy's
tool calls go into `info["tool_outputs"]`, a list of `tool_output(call, result)`.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response as HttpResponse
from pydantic import BaseModel, Field

from nemo_gym.failures import InputError
from nemo_gym.resources.answer_fault_rule import Control, insert_control
from nemo_gym.resources.server import SimpleResourcesServer
from nemo_gym.resources.verdicts import MALFORMED_STEP, dump_verdict
from nemo_gym.responses.items import FunctionToolCall
from nemo_gym.responses.schemas import Response, ResponseCreateParams
from nemo_gym.rows.keys import ANSWER_FAULT_DETAIL_KEY, ANSWER_FAULT_KEY
from nemo_gym.rows.models import BaseVerifyRequest, BaseVerifyResponse, ReverifyMode
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.sessions import SESSION_ID_KEY
from nemo_gym.verify.answer_faults import settle
from nemo_gym.verify.answers import final_text

__all__ = [
    "EnvResetRequest",
    "EnvResetResponse",
    "EnvStepRequest",
    "EnvStepResponse",
    "GymnasiumServer",
    "StepResult",
    "extract_text",
    "last_action",
]

StepResult = tuple[str | None, float, bool, bool, dict[str, Any]]
"""Observation, reward, terminated, truncated, info."""

_ACTION_START, _ACTION_END = "<action>", "</action>"


class EnvResetRequest(BaseModel, extra="allow"):
    """A task row."""

    responses_create_params: ResponseCreateParams


class EnvResetResponse(BaseModel):
    observation: str | None = None
    """The policy's input after the row's own; None for nothing."""
    info: dict[str, Any] = Field(default_factory=dict)
    """With `supports_explicit_close` the agent always calls `POST /close` at the end; with
    `supports_step_idempotency` every step carries a `_ng_step_request_id` and may be sent again. `opening` has the
    `input` items and the `tools` that only the open episode knows; they come after those of the row."""


class EnvStepRequest(EnvResetRequest):
    """A task row and the model's last response."""

    response: Response


class EnvStepResponse(BaseModel):
    observation: str | None = None
    reward: float = 0.0
    terminated: bool = False
    """True if the episode reached its natural end."""
    truncated: bool = False
    """True if the environment ended the episode early."""
    info: dict[str, Any] = Field(default_factory=dict)


class GymnasiumServer(SimpleResourcesServer):
    """A step-style environment: override `step`, and usually `reset`; keep state in `session_state`."""

    session_state: dict[str | None, Any] = Field(default_factory=dict)
    """The state of each session; an entry is removed when its episode ends."""

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/reset")(self._reset_endpoint)
        app.post("/step", response_model=EnvStepResponse)(self._step_under_rule)
        return app

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        """Open an episode and return its first observation and info. `metadata` is the row without its parameters."""
        return None, {}

    @abstractmethod
    async def step(
        self, action: Response, metadata: dict[str, Any], session_id: str | None = None
    ) -> StepResult:
        """Advance the episode by `action`, the model's last response."""

    async def release_session(self, session_id: str | None) -> None:
        """Release the session's resources. Called once per session, when its episode ends or is abandoned."""
        self.session_state.pop(session_id, None)

    def episode(self, session_id: str | None) -> Any:
        """Return the state of an open episode. Raises `InputError` when there is none."""
        state = self.session_state.get(session_id)
        if state is None:
            raise InputError(
                f"session {session_id} has no open episode at `{self.config.name}`",
                code="no_episode",
                remedy="Open one with /reset.",
                status=409,
            )
        return state

    @staticmethod
    def tool_output(call: FunctionToolCall, result: Any) -> dict[str, str]:
        """Return an entry of `info["tool_outputs"]`: the result of one of the policy's tool calls, as JSON."""
        output = orjson.dumps(
            result, default=str, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
        )
        return {"call_id": call.call_id, "output": output.decode()}

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        """Raise `InputError`: every step has been scored already."""
        raise InputError(
            f"`{self.config.name}` scores every step; a finished attempt cannot be scored again",
            code="scored_by_steps",
            remedy="Run it with gymnasium_agent.",
            status=409,
        )

    async def get_reverify_mode(self) -> ReverifyMode:
        mode = self.config.REVERIFY_MODE
        return ReverifyMode.UNSUPPORTED if mode is ReverifyMode.UNKNOWN else mode

    async def _reset_endpoint(self, body: EnvResetRequest, request: Request) -> EnvResetResponse:
        session = request.session[SESSION_ID_KEY]
        self.middleware.access.sessions.open(session)
        observation, info = await self.reset(body.model_extra or {}, session)
        return EnvResetResponse(observation=observation, info=info)

    async def _step_endpoint(self, body: EnvStepRequest, request: Request) -> EnvStepResponse:
        session = request.session[SESSION_ID_KEY]
        return await self._end_if_over(_read_result(await self._step(body, session)), session)

    async def _step_under_rule(self, body: EnvStepRequest, request: Request) -> HttpResponse:
        """Answer a step. The dump of its result is under the rule about faults."""
        session = request.session[SESSION_ID_KEY]
        result = await self._step(body, session)
        try:
            answer = _read_result(result)
            dumped = _dump(answer)
        except Exception as error:  # noqa: BLE001 - `_settle` raises every failure again
            answer = await self._settle(error, body)
            dumped = _dump(answer)
        await self._end_if_over(answer, session)
        return JsonResponse(dumped)

    async def _step(self, body: EnvStepRequest, session: str) -> StepResult:
        return await self.step(body.response, body.model_extra or {}, session)

    async def _end_if_over(self, answer: EnvStepResponse, session: str) -> EnvStepResponse:
        if answer.terminated or answer.truncated:
            self.middleware.access.sessions.close(session)
            await self.release_session(session)
        return answer

    async def _settle(self, error: Exception, body: EnvStepRequest) -> EnvStepResponse:
        """Return the end of an episode whose result cannot be dumped. Raises `error` if the answer is not at fault.

        The controls are the first steps of new episodes.
        """
        rewards: list[float] = []

        async def dump_again() -> None:
            raise error  # a step changes its episode, so it is not made again

        async def step_controls() -> None:
            rewards.extend([await self._measure_control_reward(body, control) for control in Control])

        fault = await settle(error, dump_again, step_controls)
        assert fault is not None
        info = {ANSWER_FAULT_KEY: fault.kind, ANSWER_FAULT_DETAIL_KEY: fault.detail}
        return EnvStepResponse(reward=min(rewards[-1], 0.0), terminated=True, info=info)

    async def _measure_control_reward(self, body: EnvStepRequest, control: Control) -> float:
        session = f"control-{uuid.uuid4().hex}"
        try:
            await self.reset(body.model_extra or {}, session)
            answer = _read_result(await self._step(insert_control(body, control), session))
            _dump(answer)
            return answer.reward
        finally:
            await self.release_session(session)


def _dump(answer: EnvStepResponse) -> bytes:
    return dump_verdict(answer, code=MALFORMED_STEP)


def _read_result(result: StepResult) -> EnvStepResponse:
    observation, reward, terminated, truncated, info = result
    return EnvStepResponse(
        observation=observation, reward=reward, terminated=terminated, truncated=truncated, info=info
    )


def extract_text(response: Response) -> str:
    """Return the text of a response without its reasoning."""
    return response.output_text


def last_action(response: Response) -> str | None:
    """Return the content of the last complete `<action>…</action>` outside the reasoning; None without one."""
    text = final_text(response)
    lowered = text.lower()
    end = lowered.rfind(_ACTION_END)
    start = lowered.rfind(_ACTION_START, 0, end) if end >= 0 else -1
    return text[start + len(_ACTION_START) : end].strip() if start >= 0 else None
