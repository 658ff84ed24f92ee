"""The end of a process with its parent, and the adoption of orphans."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

PARENT_CHECK_S = 1.0
"""Seconds between two checks for the parent, where the kernel does not report its end."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def end_with_parent(parent_pid: int) -> None:
    """Arrange that this process is killed when its single-threaded parent `parent_pid` ends, even after `exec`.

    Other systems than Linux have a thread check for the parent, which works only until an `exec`.
    """
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_end_group_after, args=(parent_pid,), daemon=True).start()
    if os.getppid() != parent_pid:
        os._exit(1)  # the parent died before the kernel was asked


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, instead of init."""
    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _end_group_after(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(PARENT_CHECK_S)
    os.killpg(0, signal.SIGKILL)


def _prctl(option: int, argument: int) -> None:
    # Every argument is an unsigned long; an `int` passed bare would leave the upper half undefined.
    arguments = [ctypes.c_ulong(each) for each in (argument, 0, 0)]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *arguments) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
