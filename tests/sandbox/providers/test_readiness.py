"""The wait for a new sandbox to run commands."""

from __future__ import annotations

import asyncio

import pytest

from nemo_gym.sandbox.providers.options import ReadinessProbe
from nemo_gym.sandbox.providers.readiness import wait_until_ready
from nemo_gym.sandbox.providers.specification import SandboxCreateVerificationError, SandboxExecResult


class Answers:
    """Commands that give prepared answers, and then always the last."""

    def __init__(self, *stdout: str | None) -> None:
        self.left, self.calls = list(stdout), 0

    async def run(self, command: str, timeout_s: float) -> SandboxExecResult:
        self.calls += 1
        text = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return SandboxExecResult(text, "", 0 if text is not None else 1)


async def test_a_ready_sandbox_is_asked_once() -> None:
    answers = Answers("ready")
    await wait_until_ready(ReadinessProbe(), answers.run)
    assert answers.calls == 1


async def test_until_the_deadline_the_probe_is_repeated() -> None:
    answers = Answers(None, "not yet", "ready", None, "ready", "ready")
    await wait_until_ready(ReadinessProbe(deadline_s=60, stable_count=2), answers.run)
    assert answers.calls == 6


@pytest.mark.parametrize("stdout", [None, "something else"])
async def test_without_a_deadline_one_failure_is_enough(stdout: str | None) -> None:
    answers = Answers(stdout)
    with pytest.raises(SandboxCreateVerificationError, match="does not pass its probe 'printf ready'"):
        await wait_until_ready(ReadinessProbe(), answers.run)
    assert answers.calls == 1


async def test_after_the_deadline_the_sandbox_is_given_up() -> None:
    async def never(command: str, timeout_s: float) -> SandboxExecResult:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(SandboxCreateVerificationError):
        await wait_until_ready(ReadinessProbe(deadline_s=0.05), never)


async def test_no_command_is_no_probe() -> None:
    answers = Answers(None)
    await wait_until_ready(ReadinessProbe(command=None), answers.run)
    assert answers.calls == 0
