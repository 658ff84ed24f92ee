"""The program between a model server and its engine: it ends every process of the engine when the server ends.

An engine has processes of its own, which outlive its main process if that is killed. This program starts the engine in
its own session and ends that session when the server closes the channel, or has ended in any way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence

from nemo_gym.processes.process_tree import kill, kill_group, list_descendants
from nemo_gym.processes.program import wait_until_parent_ends


def main(channel: socket.socket, command: str, grace_s: str) -> None:
    """Run `command`, a JSON list of words, and exit with its code."""
    sys.exit(asyncio.run(_run(channel, json.loads(command), float(grace_s))))


async def _run(channel: socket.socket, command: Sequence[str], grace_s: float) -> int:
    # Standard output is the server's log, as standard error is.
    engine = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
    )
    ended = asyncio.create_task(engine.wait())
    parent = asyncio.create_task(wait_until_parent_ends(channel))
    await asyncio.wait({ended, parent}, return_when=asyncio.FIRST_COMPLETED)
    descendants = list(list_descendants(engine.pid))
    if not ended.done():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(engine.pid, signal.SIGTERM)
        await asyncio.wait({ended}, timeout=grace_s)
    kill_group(engine.pid)
    for pid in descendants:
        kill(pid)
    return await ended
