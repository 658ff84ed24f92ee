"""Harnesses in sandboxes, and the answers that they send."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.isolation.execution import ConfinedRunner, SandboxLimits
from nemo_gym.isolation.python_installation import PythonInstallation
from nemo_gym.verify._code_protocol import HarnessReply, open_harness
from nemo_gym.verify._code_verdicts import Reason, SolutionFailed

PYTHON = PythonInstallation.from_gym()


async def test_a_harness_that_does_not_start_is_a_failure_of_the_machine() -> None:
    broken = replace(PYTHON, flags=("--no-such-flag",))
    with pytest.raises(VerifierError, match="A sandbox did not start") as caught:
        async with open_harness(ConfinedRunner.from_python(PYTHON), broken, SandboxLimits(wall_s=10)):
            pass
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("sandbox_failed", True)


async def test_a_harness_answers_with_a_word_and_json() -> None:
    async with open_harness(ConfinedRunner.from_python(PYTHON), PYTHON, SandboxLimits(wall_s=60)) as harness:
        limit = harness.process.cpu_limit(10)
        await harness.send({"part": "calls", "sources": ["def f(x): return (x, 1)"]}, limit)
        assert (await harness.receive(limit)).word == "loaded"
        await harness.send(("f", b'[["a"],{"dict":[]}]'), limit)
        assert await harness.receive(limit) == HarnessReply("value", b'{"tuple":["a",1]}\n')
        await harness.send(("g", b'[[],{"dict":[]}]'), limit)
        assert (await harness.receive(limit)).word == "undefined"


@pytest.mark.parametrize("payload", [b"{", b"[" * 9_999, b'"' + b"x" * 99_999 + b'"', b"\xff"])
def test_a_long_or_unreadable_payload_breaks_the_protocol(payload: bytes) -> None:
    with pytest.raises(SolutionFailed) as caught:
        HarnessReply("raised", payload).value()
    assert caught.value.reason is Reason.BROKEN_PROTOCOL


@pytest.mark.parametrize("payload", [b"1", b'["a"]', b'["a",1]', b'["a","b","c"]'])
def test_an_exception_is_two_texts(payload: bytes) -> None:
    assert HarnessReply("raised", b'["a","b"]').two_texts() == ("a", "b")
    with pytest.raises(SolutionFailed):
        HarnessReply("raised", payload).two_texts()
