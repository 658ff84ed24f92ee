"""A program that runs another one under a deadline and confirms that none of its descendants is left.

The file is copied into a sandbox and run there, so that it needs Linux and the standard library only:

    python process_supervisor.py --timeout 600 --receipt /tmp/cleanup.json -- COMMAND ...

At the deadline, at SIGTERM or SIGINT, and when `--stop-file` exists, the command gets SIGTERM, then, after
`--cleanup-timeout` seconds, SIGKILL. Its descendants are then killed, also those that left its process group. The
receipt is written at the end: `{"cleanup_confirmed", "return_code", "error", "timed_out"}`.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TypedDict

DEFAULT_CLEANUP_TIMEOUT = 10.0
"""Seconds for each step of the cleanup: SIGTERM, SIGKILL, the descendants."""
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02


class CleanupReceipt(TypedDict):
    """The end of a supervised command."""

    cleanup_confirmed: bool
    """True if no descendant is left."""
    return_code: int | None
    error: str | None
    timed_out: bool


def exec_timeout(*, timeout: float, cleanup_timeout: float = DEFAULT_CLEANUP_TIMEOUT) -> float:
    """Seconds that a provider must allow for a supervised command with a deadline of `timeout` seconds."""
    return timeout + 3 * cleanup_timeout + 5.0


def supervise(
    command: list[str], *, timeout: float, cleanup_timeout: float, stop_path: Path | None = None
) -> CleanupReceipt:
    """Run a command and return its receipt, after the end of all its descendants."""
    stops: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stops.append(received))
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if stop_path is not None and stop_path.exists():
        return CleanupReceipt(cleanup_confirmed=True, return_code=None, error=None, timed_out=False)
    try:
        process = subprocess.Popen(command, start_new_session=True)
    except OSError as failure:
        return CleanupReceipt(cleanup_confirmed=True, return_code=None, error=str(failure), timed_out=False)
    deadline = time.monotonic() + timeout
    timed_out = False
    while process.poll() is None and not stops and not (stop_path is not None and stop_path.exists()):
        timed_out = time.monotonic() >= deadline
        if timed_out:
            break
        time.sleep(_POLL_S)
    _end(process, cleanup_timeout)
    is_clean = _end_descendants(cleanup_timeout)
    error = None if is_clean else f"descendants are left after {cleanup_timeout:g} s"
    return CleanupReceipt(
        cleanup_confirmed=is_clean, return_code=process.returncode, error=error, timed_out=timed_out
    )


def _end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)


def _end_descendants(patience_s: float) -> bool:
    """Kill and reap all descendants, which the kernel makes children of this process. Return whether none is left."""
    limit = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = _children()
        if not left:
            return True
        if time.monotonic() >= limit:
            return False
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _children() -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[1]
            if int(parent) == os.getpid():
                found.append(int(folder.name))
    return found


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return value


def main() -> int:
    """Supervise the command of the command line and write its receipt. The exit code is 0 unless that has an error."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--timeout", type=_positive, required=True)
    parser.add_argument("--cleanup-timeout", type=_positive, default=DEFAULT_CLEANUP_TIMEOUT)
    parser.add_argument("--stop-file", type=Path)
    parser.add_argument("--receipt", type=Path, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        parser.error("a command is needed behind --")
    receipt = supervise(
        command, timeout=given.timeout, cleanup_timeout=given.cleanup_timeout, stop_path=given.stop_file
    )
    partial = given.receipt.with_name(f"{given.receipt.name}.partial")
    partial.write_text(json.dumps(receipt), encoding="utf-8")
    partial.replace(given.receipt)
    return 1 if receipt["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
