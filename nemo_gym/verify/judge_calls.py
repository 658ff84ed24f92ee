"""Judge models in verifiers: a judge that failed is not a judge that said no.

`call_judge` and `reraise_judge_errors` turn whatever goes wrong in a judge call into `JudgeError`;
`judge_failsafe` turns a `verify` that raises it into a row that says so, which the collector counts as a failure
and may attempt again. A verdict that arrived but can't be read is the verifier's business: it may score it as a
wrong answer or raise `JudgeError` itself.

Wrap the call only. A bug in building the judge's prompt is a failure of the verifier, not of the judge.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import orjson
from fastapi.responses import Response
from pydantic import BaseModel

from nemo_gym.failures import JUDGE_FAILED, DeadlineError, Failure, GymError, JudgeError
from nemo_gym.names import FAILURE_CLASS_KEY, REWARD_KEY

if TYPE_CHECKING:
    from nemo_gym.transport.server_client import ServerClient

_LONGEST_ERROR = 2000

Params = ParamSpec("Params")
ResultT = TypeVar("ResultT")
ModelT = TypeVar("ModelT", bound=BaseModel)


async def call_judge(
    server_client: ServerClient, *, server_name: str, url_path: str, json: Any, response_model: type[ModelT]
) -> ModelT:
    """The answer of the model server `server_name` to `json`, as a `response_model`.

    Raises `JudgeError` when the call fails, answers an error status or answers something else.
    """
    from nemo_gym.transport.server_client import get_response_json, raise_for_status

    async def call() -> ModelT:
        answer = await server_client.post(server_name=server_name, url_path=url_path, json=json)
        await raise_for_status(answer)
        return response_model.model_validate(await get_response_json(answer))

    return await reraise_judge_errors(call())


async def reraise_judge_errors(call: Awaitable[ResultT]) -> ResultT:
    """The result of `call`; what it raises is raised as `JudgeError`.

    A rollout's deadline that passes meanwhile stays `DeadlineError`: it isn't the judge's fault.
    """
    try:
        return await call
    except (JudgeError, DeadlineError):
        raise
    except Exception as error:
        raise _judge_error_of(error) from error


def _judge_error_of(error: Exception) -> JudgeError:
    # A peer's error answer carries the failure that its server reported, if that is one of ours.
    failure = error.failure if isinstance(error, GymError) else getattr(error, "failure", None)
    if not isinstance(failure, Failure):
        return JudgeError(f"{type(error).__name__}: {error}")
    return JudgeError(failure.message, retryable=failure.retryable, remedy=failure.remedy, peer=failure.peer)


def judge_failsafe(
    verify: Callable[Params, Awaitable[ResultT]],
) -> Callable[Params, Awaitable[ResultT | Response]]:
    """`verify` with the same signature, answering a `JudgeError` with a row that is marked as failed.

    The row is the request with `reward: 0.0`, `_ng_failure_class: "judge_failed"` and the judge's error; its
    `response` stays in it, so that it can be judged again without another rollout. `mask_sample`, `failure_kind`
    and `failure_reason` tell trainers that read the row directly to leave it out.
    """
    signature = inspect.signature(verify)

    @functools.wraps(verify)
    async def verify_or_report(*args: Params.args, **kwargs: Params.kwargs) -> ResultT | Response:
        try:
            return await verify(*args, **kwargs)
        except JudgeError as error:
            given = signature.bind(*args, **kwargs).arguments
            row = _request_row(given.values())
            if row is None:
                raise
            return Response(orjson.dumps(row | _marks_of(error)), media_type="application/json")

    return verify_or_report


def _request_row(arguments: Any) -> dict[str, Any] | None:
    """The verify request among the arguments, as JSON: the one model that holds a `response`."""
    for argument in arguments:
        if isinstance(argument, BaseModel) and hasattr(argument, "response"):
            return argument.model_dump(mode="json", by_alias=True)
    return None


def _marks_of(error: JudgeError) -> dict[str, Any]:
    reason = error.failure.message[:_LONGEST_ERROR]
    return {
        REWARD_KEY: 0.0,
        FAILURE_CLASS_KEY: JUDGE_FAILED,
        "_ng_failure_judge_error": reason,
        "mask_sample": True,
        "failure_kind": JUDGE_FAILED,
        "failure_reason": reason,
    }
