"""The rule about faults (`nemo_gym.verify.answer_faults`) on the route `POST /verify`, for every environment.

An answer that breaks `verify`, or the dump of its verdict, scores like no answer: its row is the one of an attempt
without output, with a reward of at most 0 and two more fields, `answer_fault` (`cpu_time`, `memory`, `raised`, ...)
and `answer_fault_detail`. The controls are an attempt without output and one with an ordinary answer: if `verify` fails
with one of them, the environment is at fault, and the failure stays a failure.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from fastapi import Request
from fastapi.dependencies.utils import get_dependant
from fastapi.responses import Response as HttpResponse
from pydantic import BaseModel
from pydantic_core import to_json

from nemo_gym.failures import VerifierError
from nemo_gym.json_objects import parse_json
from nemo_gym.resources.judge_failsafe import request_among
from nemo_gym.resources.verdicts import NO_REWARD, check_response, dump_verdict
from nemo_gym.responses.wire import read_field
from nemo_gym.rows.compose import score_fault
from nemo_gym.rows.keys import RESPONSE_KEY, REWARD_KEY
from nemo_gym.rows.verdict import is_reward
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.routes import build_response, read_left_out_fields, replace_lone_surrogates
from nemo_gym.verify.answer_faults import AnswerFault, score_with_control, settle

_ORDINARY = "The answer is \\boxed{1}.\n<answer>1</answer>\nAnswer: 1"
_REQUEST = "gym_request"

JsonObject = dict[str, Any]
RequestT = TypeVar("RequestT", bound=BaseModel)


class Control(StrEnum):
    """An attempt with a harmless answer."""

    ORDINARY = "ordinary"
    """The calls of the attempt without arguments, and a short answer."""
    EMPTY = "empty"
    """No output."""


def score_faulty_answers(verify: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[HttpResponse]]:
    """Wrap an asynchronous `verify` in an endpoint that answers its verdict as JSON, or 0 for an answer that breaks it.

    The endpoint is called with keywords, as FastAPI does.
    """
    own_request = get_dependant(path="/verify", call=verify).request_param_name
    request_name = own_request or _REQUEST

    @functools.wraps(verify)
    async def verify_under_rule(**arguments: Any) -> HttpResponse:
        request = arguments[request_name] if own_request else arguments.pop(_REQUEST)
        call = _VerifyCall(verify, arguments, read_left_out_fields(request.scope))
        try:
            return await call.answer()
        except Exception as error:
            name = request_among(arguments)
            if name is None:
                raise
            return await call.settle(error, name)

    if not own_request:
        vars(verify_under_rule)["__signature__"] = _add_request_parameter(inspect.signature(verify))
    return verify_under_rule


def _add_request_parameter(signature: inspect.Signature) -> inspect.Signature:
    added = inspect.Parameter(_REQUEST, inspect.Parameter.KEYWORD_ONLY, annotation=Request)
    return signature.replace(parameters=[*signature.parameters.values(), added])


@dataclass(frozen=True, slots=True)
class _VerifyCall:
    """A call of an asynchronous `verify`."""

    verify: Callable[..., Awaitable[object]]
    arguments: Mapping[str, Any]
    left_out: str | None
    """The names of fields that the answer can omit."""

    async def answer(self) -> HttpResponse:
        """Return the verdict as JSON. Raises what `verify` and `dump_verdict` raise."""
        result = await self.verify(**self.arguments)
        if isinstance(result, HttpResponse):
            check_response(result)
            return result
        given = next((value for value in self.arguments.values() if isinstance(value, HttpResponse)), None)
        return build_response(dump_verdict(result, self.left_out, verify=self.verify), given)

    async def settle(self, error: Exception, name: str) -> HttpResponse:
        """Return the answer to a call that ended with `error`; `name` is the parameter of the verify request."""
        original = self.arguments[name]

        async def verify_control(control: Control) -> bytes:
            request = insert_control(original, control)
            answer = await replace(self, arguments={**self.arguments, name: request}).answer()
            return bytes(answer.body)

        controls = _Controls(verify_control)
        result = await settle(error, self.answer, controls.run)
        if not isinstance(result, AnswerFault):
            return result
        response = original.response
        plain = (
            response.model_dump(mode="json", by_alias=True) if isinstance(response, BaseModel) else response
        )
        return JsonResponse(controls.fault_row(result, plain))


async def score_faulty_body(verify: Callable[[Control | None], Awaitable[bytes]], body: bytes) -> bytes:
    """Return the verdict of `verify` on the JSON `body` under the rule. `verify(control)` puts the control into it."""
    controls = _Controls(verify)
    result = await score_with_control(lambda: verify(None), controls.run)
    if not isinstance(result, AnswerFault):
        return result
    return controls.fault_row(result, parse_json(replace_lone_surrogates(body))[RESPONSE_KEY])


class _Controls:
    """The attempts with harmless answers."""

    def __init__(self, verify_control: Callable[[Control], Awaitable[bytes]]) -> None:
        self._verify_control = verify_control
        self._row: JsonObject = {}
        """The row of the attempt without output."""

    async def run(self) -> None:
        """Verify both. Raises what `verify` raises, and `VerifierError` for a row without a reward.

        An ordinary answer may have a fault that `verify` has settled itself (`score_in_worker`).
        """
        with suppress(AnswerFault):
            _read_row(await self._verify_control(Control.ORDINARY))
        self._row = _read_row(await self._verify_control(Control.EMPTY))

    def fault_row(self, fault: AnswerFault, response: object) -> bytes:
        """Return the row of the answer with a fault; `response` takes the place of the empty one."""
        row = score_fault(self._row, fault.kind, fault.detail)
        if RESPONSE_KEY in row:
            row[RESPONSE_KEY] = response
        return to_json(row, inf_nan_mode="null")


def _read_row(body: bytes) -> JsonObject:
    row = parse_json(body)
    if not isinstance(row, dict) or not is_reward(row.get(REWARD_KEY)):
        raise VerifierError("The control has no reward.", code=NO_REWARD)
    return row


def insert_control(request: RequestT, control: Control) -> RequestT:
    """Return a request with a `response` whose output is that of `control`."""
    response: Any = getattr(request, RESPONSE_KEY, None)
    output = harmless_output(read_field(response, "output") or ()) if control is Control.ORDINARY else []
    if isinstance(response, BaseModel):
        plain = response.model_dump(mode="json", by_alias=True, exclude={"output"})
        response = type(response).model_validate({**plain, "output": output})
    elif isinstance(response, Mapping):
        response = {**response, "output": output}
    return request.model_copy(update={RESPONSE_KEY: response})


def harmless_output(items: Any) -> list[JsonObject]:
    """Return the output of an ordinary attempt: the calls among `items` without arguments, and a short answer."""
    calls = [
        {"type": "function_call", "id": f"fc_{index}", "call_id": f"call_{index}", "arguments": "{}",
         "name": str(read_field(item, "name")), "status": "completed"}
        for index, item in enumerate(items)
        if read_field(item, "type") == "function_call"
    ]  # fmt: skip
    content = [{"type": "output_text", "text": _ORDINARY, "annotations": []}]
    message = {
        "type": "message",
        "id": "msg_0",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    return [*calls, message]
