"""The client of a step-style environment: `/reset`, `/step` and, if supported, `/close`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from nemo_gym.agents.policy import calls_in, drop_tokens, input_items, user_message
from nemo_gym.agents.tools import FailedToolCall, tool_error
from nemo_gym.episodes.driver import close_quietly, require_ok
from nemo_gym.failures import VerifierError
from nemo_gym.names import STEP_REQUEST_KEY
from nemo_gym.resources.gymnasium import EnvResetResponse, EnvStepResponse
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind
from nemo_gym.transport.server_client import ServerClient

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class ToolOutput(NamedTuple):
    """The output of a tool call."""

    call_id: str
    text: str
    error: FailedToolCall | None = None
    """The failure of a call that the environment ignored."""


class StepEnvironment:
    """One episode at the resources server `name`."""

    def __init__(self, client: ServerClient, name: str, row: AnyRow) -> None:
        self._client = client
        self._name = name
        self._row = dict(row)
        self._tools = {tool.get("name") for tool in read_params(row).get("tools") or ()}
        self._offers: Mapping[str, Any] = {}

    async def reset(self) -> EnvResetResponse:
        opening = await self._post("/reset", self._row, EnvResetResponse, repeatable=True)
        self._offers = opening.info
        return opening

    def place_opening(self, opening: EnvResetResponse, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the first model call: those of the row, and what the open episode adds."""
        given = opening.info.get("opening") or {}
        items, tools = list(given.get("input") or ()), list(given.get("tools") or ())
        if opening.observation:
            items.append(user_message(opening.observation))
        shown = dict(params)
        if items:
            shown["input"] = [*input_items(params["input"]), *items]
        if tools:
            shown["tools"] = [*(params.get("tools") or ()), *tools]
            self._tools |= {tool.get("name") for tool in tools}
        return shown

    async def step(self, answer: Mapping[str, Any]) -> EnvStepResponse:
        """Send the model's answer. A step is retried only if the environment supports idempotent steps."""
        response = {**answer, "output": [drop_tokens(item) for item in answer["output"]]}
        repeatable = self._offers.get("supports_step_idempotency") is True
        tag = {STEP_REQUEST_KEY: uuid.uuid4().hex} if repeatable else {}
        return await self._post(
            "/step", {**self._row, **tag, "response": response}, EnvStepResponse, repeatable=repeatable
        )

    def tool_outputs(self, step: EnvStepResponse, answer: Mapping[str, Any]) -> list[ToolOutput]:
        """Return the output of each tool call in the answer.

        A call that the environment ignored gets an error, because engines refuse a conversation with an open call.
        """
        open_calls = {call["call_id"]: call["name"] for call in calls_in(answer)}
        given = step.info.get("tool_outputs") or []
        outputs = [ToolOutput(entry["call_id"], _text_of(entry["output"])) for entry in self._checked(given)]
        for call_id, _, _ in outputs:
            if open_calls.pop(call_id, None) is None:
                raise self._malformed(
                    "/step", f"`info.tool_outputs` has the call id {call_id!r}, which is not an open call"
                )
        is_over = step.terminated or step.truncated
        ignored = (self._ignored(call_id, name, is_over=is_over) for call_id, name in open_calls.items())
        return [*outputs, *ignored]

    def _ignored(self, call_id: str, name: str, *, is_over: bool) -> ToolOutput:
        """Return the error of a call without an output. After the end of the episode it is nobody's fault."""
        told = f"{name} had no effect"
        if is_over:
            return ToolOutput(call_id, tool_error(told))
        if name in self._tools:
            failed = FailedCall(
                name, ToolErrorKind.NO_EFFECT, f"POST /step of `{self._name}` gave no output for it"
            )
        else:
            failed = FailedCall(name, ToolErrorKind.UNKNOWN_TOOL, f"the task declares no tool named {name!r}")
        return ToolOutput(call_id, tool_error(told), FailedToolCall(failed, tool_error(told)))

    async def close(self) -> None:
        """Call `/close` if the environment supports it. The episode driver closes the session."""
        if self._offers.get("supports_explicit_close") is True:
            await close_quietly(self._client, self._name, "/close")

    async def _post(
        self, path: str, body: dict[str, Any], model: type[AnswerT], *, repeatable: bool
    ) -> AnswerT:
        data = orjson.dumps(body)
        reply = await self._client.post(self._name, path, data=data, repeatable=repeatable)
        require_ok(reply, self._name, f"answer {path}")
        try:
            return model.model_validate_json(reply.body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise self._malformed(path, f"{where}: {first['msg']}") from error

    def _checked(self, entries: object) -> list[dict[str, Any]]:
        if isinstance(entries, list) and all(
            isinstance(entry, dict) and {"call_id", "output"} <= entry.keys() for entry in entries
        ):
            return entries
        raise self._malformed("/step", "`info.tool_outputs` must be a list of {call_id, output}")

    def _malformed(self, path: str, why: str) -> VerifierError:
        return VerifierError(
            f"`{self._name}` returned an invalid response to {path}: {why}",
            code="malformed_step",
            peer=self._name,
        )


def _text_of(output: object) -> str:
    return output if isinstance(output, str) else orjson.dumps(output).decode()
