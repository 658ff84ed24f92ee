"""The rule about faults: an answer's fault is 0, a fault of the machine or the environment is a failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from nemo_gym.failures import InputError, VerifierError
from nemo_gym.verify.answer_faults import AnswerFault, possible_fault, score_with_control

Verification = Callable[[], Awaitable[float]]


def raising(*errors: Exception | None) -> Verification:
    """A verification whose calls raise these errors in turn; None stands for a reward of 1."""
    left = list(errors)

    async def verify() -> float:
        error = left.pop(0)
        if error is not None:
            raise error
        return 1.0

    return verify


def test_only_unstated_errors_can_be_an_answer_s_fault() -> None:
    assert possible_fault(RecursionError("too deep")) == AnswerFault("raised", "RecursionError: too deep")
    timeout = possible_fault(VerifierError("10 s", code="verifier_timeout"))
    assert timeout is not None
    assert timeout.kind == "cpu_time"
    assert possible_fault(InputError("no such field", code="invalid_request")) is None
    assert possible_fault(OSError(28, "No space left on device")) is None


@pytest.mark.parametrize("code", ["no_reward", "malformed_step", "score_out_of_range", "verifier_raised"])
def test_a_verdict_that_is_none_can_be_an_answer_s_fault(code: str) -> None:
    fault = possible_fault(VerifierError("the reward is nan for \ud800", code=code))
    assert fault == AnswerFault("raised", "the reward is nan for \ufffd")


async def test_a_fault_that_repeats_and_spares_the_control_is_the_answer_s() -> None:
    result = await score_with_control(raising(ValueError("x"), ValueError("x")), raising(None))
    assert result == AnswerFault("raised", "ValueError: x")


async def test_a_fault_that_passes_is_none() -> None:
    assert await score_with_control(raising(ValueError("x"), None), raising()) == 1.0


async def test_a_fault_that_the_control_has_too_is_the_environment_s() -> None:
    with pytest.raises(ValueError, match="the answer's"):
        await score_with_control(
            raising(ValueError("the answer's"), ValueError("again")), raising(KeyError("control"))
        )


async def test_an_error_of_the_machine_in_the_second_try_is_a_failure() -> None:
    with pytest.raises(OSError, match="disk"):
        await score_with_control(raising(ValueError("x"), OSError(28, "disk")), raising())


async def test_a_fault_that_was_settled_before_is_neither_repeated_nor_changed() -> None:
    fault = AnswerFault("raised", "ValueError: x")
    assert await score_with_control(raising(fault), raising(None)) is fault
    assert str(fault) == "raised: ValueError: x"


async def test_a_settled_fault_of_an_environment_whose_control_fails_is_a_failure() -> None:
    with pytest.raises(AnswerFault):
        await score_with_control(raising(AnswerFault("raised", "x")), raising(KeyError("control")))
