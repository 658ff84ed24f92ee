"""The wait for a new sandbox to run commands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from nemo_gym.sandbox.providers.options import ReadinessProbe
from nemo_gym.sandbox.providers.specification import SandboxCreateVerificationError, SandboxExecResult


async def wait_until_ready(
    probe: ReadinessProbe, run: Callable[[str, float], Awaitable[SandboxExecResult]]
) -> None:
    """Run the probe's command until it succeeds as often in a row as required.

    `run` takes the command and its timeout. Raises SandboxCreateVerificationError with the last answer.
    """
    if probe.command is None:
        return
    answer = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(probe.deadline_s):
            successes = 0
            while successes < probe.stable_count:
                answer = await run(probe.command, probe.timeout_s)
                is_expected = (probe.expected_stdout or "") in (answer.stdout or "")
                is_ready = answer.return_code == 0 and is_expected
                successes = successes + 1 if is_ready else 0
                if not is_ready and probe.deadline_s is None:
                    break
                if successes < probe.stable_count:
                    await asyncio.sleep(max(probe.stable_delay_s, 0.0 if is_ready else 0.1))
            else:
                return
    raise SandboxCreateVerificationError(f"the sandbox does not pass its probe {probe.command!r}: {answer}")
