"""The rule about faults, which every verifier passes through.

**An answer's fault is 0 with its reason. A fault of the machine or of the environment is a failure.** Otherwise an
answer that breaks its verifier would escape its 0, and a broken machine would be scored.

The fault is an answer's if the verification

- went wrong by itself: it raised an exception, computed beyond its limit, took too much memory, crashed its worker or
  had to read too long a text;
- goes wrong again: a fault of an answer repeats;
- does not go wrong with a harmless answer to the same task, the control.

A `GymError` that a verifier raises itself (`InputError`, `JudgeError`, ...) is stated: it stays a failure. So do errors
of the operating system and of HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nemo_gym.failures import GymError
from nemo_gym.json_objects import replace_surrogates
from nemo_gym.processes.workers import WorkerPool, default_pool

__all__ = ["AnswerFault", "score_in_worker"]

log = logging.getLogger(__name__)

R = TypeVar("R")

TOO_LONG = "answer_too_long"
"""The code of a `VerifierError` for an answer that is too long to be verified."""
_KINDS = {
    "verifier_timeout": "cpu_time",
    "verifier_blocked": "blocked",
    "verifier_out_of_memory": "memory",
    "verifier_crashed": "crashed",
    "verifier_raised": "raised",
    "no_reward": "raised",
    "score_out_of_range": "raised",
    "malformed_step": "raised",
    TOO_LONG: "too_long",
}
_CERTAIN = frozenset({"cpu_time", "memory", "too_long"})
"""Faults that are not repeated to see whether they happen again. One that `verify` raised has been repeated."""
_LONGEST_DETAIL = 500


@dataclass(unsafe_hash=True)
class AnswerFault(Exception):
    """The reason why an answer that broke its verification scores 0.

    A `verify` that gets one from `score_in_worker` raises it. Then its row is the one of the rule, with `answer_fault`,
    as if `verify` itself had been broken, and metrics count it.
    """

    kind: str
    """`cpu_time`, `blocked`, `memory`, `crashed`, `raised` or `too_long`."""
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def possible_fault(error: Exception) -> AnswerFault | None:
    """Return the answer's fault that `error` may be; None if it is a failure whatever the answer."""
    if isinstance(error, AnswerFault):
        return error
    if isinstance(error, GymError):
        kind = _KINDS.get(error.failure.code)
        return AnswerFault(kind, _readable(error.failure.message)) if kind else None
    if isinstance(error, OSError) or hasattr(error, "status_code"):
        return None
    return AnswerFault("raised", _readable(f"{type(error).__name__}: {error}"))


def _readable(message: str) -> str:
    return replace_surrogates(message[:_LONGEST_DETAIL])


async def score_with_control(
    verification: Callable[[], Awaitable[R]], control: Callable[[], Awaitable[object]]
) -> R | AnswerFault:
    """Return the result of `verification`, or the answer's fault. Raises the error of every other failure.

    `control` verifies a harmless answer to the same task. Both may be called twice.
    """
    try:
        return await verification()
    except Exception as error:  # noqa: BLE001 - `settle` raises every failure again
        return await settle(error, verification, control)


async def settle(
    error: Exception, verification: Callable[[], Awaitable[R]], control: Callable[[], Awaitable[object]]
) -> R | AnswerFault:
    """Return the answer's fault behind the `error` of a verification, or the result of another verification.

    The rest is as with `score_with_control`.
    """
    fault = possible_fault(error)
    if fault is None:
        raise error
    if fault is not error and fault.kind not in _CERTAIN:
        try:
            return await verification()
        except Exception as again:
            if possible_fault(again) is None:
                raise again from error
    try:
        await control()
    except Exception as other:
        if type(other) is type(error):
            raise error from None  # the same bug is logged once
        raise error from other
    log.info("an answer broke its verification and scores 0: %s: %s", fault.kind, fault.detail)
    return fault


async def score_in_worker(
    function: Callable[..., R],
    *args: object,
    control: Sequence[object],
    timeout_s: float,
    imports: Sequence[str] = (),
    pool: WorkerPool | None = None,
) -> R | AnswerFault:
    """Return the result of `function(*args)`, run in a worker under the rule, or the answer's fault, to be raised.

    `control` are the arguments with a harmless answer. Raises the error of every other failure.
    """
    workers = pool or default_pool()

    async def verify(arguments: Sequence[object]) -> R:
        return await workers.submit(function, arguments, {}, timeout_s=timeout_s, imports=imports)

    return await score_with_control(lambda: verify(args), lambda: verify(control))
