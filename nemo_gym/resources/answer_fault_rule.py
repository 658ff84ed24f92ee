"""The rule about faults (`nemo_gym.verify.answer_faults`) on the route `POST /verify`, for every environment.

An answer that breaks `verify` scores like no answer: its row is the one of an attempt without output, with a reward of
at most 0 and two more fields, `answer_fault` (`cpu_time`, `memory`, `raised`, ...) and `answer_fault_detail`. The
controls are an attempt without output and one with an ordinary answer: if `verify` fails with one of them, the
environment is at fault, and the failure stays a failure.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import orjson
from fastapi.responses import Response as HttpResponse
from pydantic import BaseModel

from nemo_gym.failures import VerifierError
from nemo_gym.json_objects import dump_json, parse_json
from nemo_gym.resources.judge_failsafe import request_among
from nemo_gym.responses.schemas import Response
from nemo_gym.responses.wire import read_field
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.routes import dump_body
from nemo_gym.verify.answer_faults import AnswerFault, scored, settle

FAULT_KEY = "answer_fault"
DETAIL_KEY = "answer_fault_detail"
_ORDINARY = "The answer is \\boxed{1}.\n<answer>1</answer>\nAnswer: 1"

Params = ParamSpec("Params")
ResultT = TypeVar("ResultT")
JsonObject = dict[str, Any]


def score_faulty_answers(
    verify: Callable[Params, Awaitable[ResultT]],
) -> Callable[Params, Awaitable[ResultT | HttpResponse]]:
    """Wrap an asynchronous `verify` so that an answer that breaks it scores 0."""
    signature = inspect.signature(verify)

    @functools.wraps(verify)
    async def verify_under_rule(*args: Params.args, **kwargs: Params.kwargs) -> ResultT | HttpResponse:
        try:
            return await verify(*args, **kwargs)
        except Exception as error:
            bound = signature.bind(*args, **kwargs)
            name = request_among(bound.arguments)
            if name is None:
                raise
            return await _settle(error, verify, bound, name)

    return verify_under_rule


async def _settle(
    error: Exception, verify: Callable[..., Awaitable[ResultT]], bound: inspect.BoundArguments, name: str
) -> ResultT | HttpResponse:
    """Return the result of a call of `verify` that ended with `error`; `name` is the parameter of its request."""
    original = bound.arguments[name]

    async def verify_request(request: BaseModel) -> ResultT:
        bound.arguments[name] = request
        return await verify(*bound.args, **bound.kwargs)

    async def verify_output(output: list[JsonObject]) -> JsonObject:
        return _row_of(await verify_request(_with_output(original, output)))

    controls = _Controls(verify_output, getattr(original.response, "output", ()))
    result = await settle(error, lambda: verify_request(original), controls.run)
    if not isinstance(result, AnswerFault):
        return result
    response = original.response.model_dump(mode="json", by_alias=True)
    return JsonResponse(dump_json(faulty_row(controls.row, result) | {"response": response}))


async def score_faulty_body(verify: Callable[[bytes], Awaitable[bytes]], body: bytes) -> bytes:
    """Return the answer of `verify` to a JSON body under the rule. `verify` may leave out the response."""

    async def verify_output(output: list[JsonObject]) -> JsonObject:
        row = parse_json(body)
        row["response"]["output"] = output
        return _row_of(await verify(dump_json(row)))

    controls = _Controls(verify_output, body)
    result = await scored(lambda: verify(body), controls.run)
    if not isinstance(result, AnswerFault):
        return result
    row = faulty_row(controls.row, result)
    if "response" in row:
        row["response"] = orjson.loads(body)["response"]
    return dump_json(row)


class _Controls:
    """The attempts with harmless answers; `row` is that of the attempt without output."""

    def __init__(
        self, verify_output: Callable[[list[JsonObject]], Awaitable[JsonObject]], source: Any
    ) -> None:
        self._verify_output = verify_output
        self._source = source
        self.row: JsonObject = {}

    async def run(self) -> None:
        await self._verify_output(harmless_output(self._source))
        self.row = await self._verify_output([])


def faulty_row(row: JsonObject, fault: AnswerFault) -> JsonObject:
    """Return the row of an answer with a fault, from the row of an attempt without output."""
    marks = {FAULT_KEY: fault.kind, DETAIL_KEY: fault.detail}
    if row["reward"] <= 0:
        return row | marks
    components = row.get("reward_components")
    silenced = {"reward_components": dict.fromkeys(components, 0.0)} if isinstance(components, dict) else {}
    return row | silenced | {"reward": 0.0} | marks


def harmless_output(source: Any) -> list[JsonObject]:
    """Return the output of an ordinary attempt: the calls of `source` without arguments, and a short answer.

    `source` is an output, or the body of a request.
    """
    items = orjson.loads(source)["response"]["output"] if isinstance(source, bytes) else source
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


def _with_output(body: BaseModel, output: list[JsonObject]) -> BaseModel:
    response: Any = getattr(body, "response", None)
    if isinstance(response, Response):
        plain = response.model_dump(mode="json", by_alias=True, exclude={"output"})
        response = type(response).model_validate({**plain, "output": output})
    return body.model_copy(update={"response": response})


def _row_of(result: object) -> JsonObject:
    if isinstance(result, HttpResponse):
        result = bytes(result.body)
    row = parse_json(result if isinstance(result, bytes) else dump_body(result))
    if not isinstance(row, dict) or not isinstance(row.get("reward"), int | float):
        raise VerifierError("The control has no reward.", code="no_reward")
    return row
