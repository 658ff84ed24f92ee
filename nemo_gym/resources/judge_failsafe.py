"""A failed judge in `verify` becomes a row that is marked as failed, which the collector may attempt again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import ParamSpec, TypeVar

from fastapi.responses import JSONResponse
from pydantic import BaseModel

from nemo_gym.failures import JudgeError
from nemo_gym.json_objects import replace_surrogates
from nemo_gym.rows.compose import fail_judge

_LONGEST_ERROR = 2000

Params = ParamSpec("Params")
ResultT = TypeVar("ResultT")


def judge_failsafe(
    verify: Callable[Params, Awaitable[ResultT]],
) -> Callable[Params, Awaitable[ResultT | JSONResponse]]:
    """Wrap `verify` so that it answers a `JudgeError` with a row that is marked as failed.

    The row is the request with `reward: 0.0`, `_ng_failure_class: "judge_failed"` and the judge's error. It keeps its
    `response`, so that it can be judged again without another rollout. `mask_sample`, `failure_kind` and
    `failure_reason` exclude the row for trainers that read it directly.
    """
    signature = inspect.signature(verify)

    @functools.wraps(verify)
    async def verify_or_report(*args: Params.args, **kwargs: Params.kwargs) -> ResultT | JSONResponse:
        try:
            return await verify(*args, **kwargs)
        except JudgeError as error:
            given = signature.bind(*args, **kwargs).arguments
            name = request_among(given)
            if name is None:
                raise
            request = given[name].model_dump(mode="json", by_alias=True)
            return JSONResponse(
                fail_judge(request, replace_surrogates(error.failure.message[:_LONGEST_ERROR]))
            )

    return verify_or_report


def request_among(arguments: Mapping[str, object]) -> str | None:
    """Return the name of the verify request among the arguments, the model with a `response`."""
    for name, value in arguments.items():
        if isinstance(value, BaseModel) and hasattr(value, "response"):
            return name
    return None
