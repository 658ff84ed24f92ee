"""The exit code of a forked child."""

from __future__ import annotations

import asyncio

from nemo_gym.processes.fork_server import ForkedProcess


def code_of(child: ForkedProcess) -> int:
    return asyncio.run(child.wait_for_end())
