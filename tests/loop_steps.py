"""The CPU seconds of each step of the event loop. They depend little on how busy the machine is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import pytest

MOST_CPU_S = 1.5
"""CPU seconds of one step with a megabyte, more than an idle machine takes. Quadratic work takes minutes."""


@contextlib.contextmanager
def measured_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Collect the CPU seconds of each step of the event loop."""
    steps: list[float] = []
    run_step = asyncio.Handle._run

    def run_measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        try:
            run_step(handle)
        finally:
            steps.append(time.thread_time() - began)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.Handle, "_run", run_measured)
        yield steps
