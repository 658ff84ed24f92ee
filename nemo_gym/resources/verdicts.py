"""A verdict as JSON that every server on its way to the row can read and dump again.

`verify` dumps its result inside the rule about faults, once, and the bytes are sent as they are. So a result that is no
verdict is a fault like any other exception: no finite reward, a text with a lone surrogate, an integer beyond all
floats, an object that contains itself.
"""

from __future__ import annotations

import math
import re

import orjson
from fastapi import Response
from pydantic import BaseModel

from nemo_gym.failures import VerifierError
from nemo_gym.processes.author_code import find_function_place
from nemo_gym.rows.keys import FAILURE_CLASS_KEY, REWARD_KEY
from nemo_gym.serving.routes import dump_body

NO_REWARD = "no_reward"
"""The code of a `VerifierError` for a result without a finite reward."""
MALFORMED_STEP = "malformed_step"
"""The code for a step without a finite reward."""
_FAILURE_MARK = f'"{FAILURE_CLASS_KEY}"'.encode()
_STRIDE = 100
_LONG_RUN = re.compile(rb"[0-9\]}]{2}")
"""Matches every `_STRIDE`th byte of a body with 200 digits or closing brackets in a row. Only such a number or nesting
can be refused by a reader of JSON that pydantic or orjson wrote. Parsing every body would cost more."""
_LEVELS_AROUND = 8
"""Levels of nesting that the servers on the way may add."""


def dump_verdict(
    result: object, left_out: str | None = None, *, code: str = NO_REWARD, verify: object = None
) -> bytes:
    """Return a result of `verify` as JSON without the fields `left_out`.

    Raises `VerifierError` with `code` if it has no finite reward, and TypeError or ValueError if JSON cannot hold it.
    """
    body = dump_body(result, left_out)
    if _LONG_RUN.search(body[::_STRIDE]):
        _read_and_dump(body)
    reward = result.get(REWARD_KEY) if isinstance(result, dict) else getattr(result, REWARD_KEY, None)
    if not _is_finite(reward) and _FAILURE_MARK not in body:
        what = f"`reward` is {repr(reward)[:100]}"
        if not isinstance(result, dict | BaseModel):
            what = f"`verify` returned {repr(result)[:100]}, which is no BaseVerifyResponse"
        raise _build_no_reward(what, code, verify)
    return body


def check_response(response: Response) -> None:
    """Raise as `dump_verdict` does if a `verify` answered a response that holds no verdict. An error is not one."""
    body = getattr(response, "body", None)
    if body is None or response.status_code >= 400:
        return
    row = _read_and_dump(bytes(body))
    reward = row.get(REWARD_KEY) if isinstance(row, dict) else None
    if not _is_finite(reward) and _FAILURE_MARK not in bytes(body):
        raise _build_no_reward(f"`reward` is {repr(reward)[:100]}", NO_REWARD, None)


def _read_and_dump(body: bytes) -> object:
    row: object = orjson.loads(body)
    nested = row
    for _ in range(_LEVELS_AROUND):
        nested = [nested]
    orjson.dumps(nested)
    return row


def _build_no_reward(what: str, code: str, verify: object) -> VerifierError:
    """Return the error for a result without a finite reward, with the place of `verify` if it is known."""
    place = find_function_place(verify) if callable(verify) else None
    return VerifierError(
        f"The verdict has no reward: {what}{f' ({place})' if place else ''}.",
        code=code,
        remedy="Return a finite number as `reward`, such as BaseVerifyResponse(**dict(body), reward=0.5).",
    )


def _is_finite(reward: object) -> bool:
    if isinstance(reward, bool):
        return False
    try:
        return math.isfinite(reward)  # type: ignore[arg-type]  # numbers of numpy too
    except (TypeError, OverflowError):
        return False
