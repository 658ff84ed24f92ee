"""Calls to a judge's model server: every error of a call becomes a `JudgeError`, never a score.

A verifier decides on a verdict that arrived but is unreadable: it scores it as a wrong answer or raises `JudgeError`.
Wrap only the call: a bug in building the judge's prompt is a failure of the verifier, not of the judge.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from pydantic import BaseModel

from nemo_gym.failures import DeadlineError, Failure, JudgeError
from nemo_gym.transport.server_client import ServerClient, get_response_json, raise_for_status

ResultT = TypeVar("ResultT")
ModelT = TypeVar("ModelT", bound=BaseModel)


async def call_judge(
    server_client: ServerClient, *, server_name: str, url_path: str, json: Any, response_model: type[ModelT]
) -> ModelT:
    """Post `json` to the model server `server_name` and return its answer as a `response_model`.

    Raises `JudgeError` when the call fails, or its answer has an error status or another shape.
    """

    async def call() -> ModelT:
        answer = await server_client.post(server_name=server_name, url_path=url_path, json=json)
        await raise_for_status(answer)
        return response_model.model_validate(await get_response_json(answer))

    return await reraise_judge_errors(call())


async def reraise_judge_errors(call: Awaitable[ResultT]) -> ResultT:
    """Return the result of `call`, and re-raise its errors as `JudgeError`.

    `DeadlineError` is re-raised as it is: an expired rollout deadline is not a failure of the judge.
    """
    try:
        return await call
    except (JudgeError, DeadlineError):
        raise
    except Exception as error:
        # An error answer of a gym server carries the failure that the server reported.
        failure = getattr(error, "failure", None)
        if not isinstance(failure, Failure):
            raise JudgeError(f"{type(error).__name__}: {error}") from error
        raise JudgeError(
            failure.message, retryable=failure.retryable, remedy=failure.remedy, peer=failure.peer
        ) from error
