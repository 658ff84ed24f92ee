"""How a process is tied to its parent, and how its group is ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

PARENT_CHECK_S = 1.0
"""How often a process that no kernel ties to its parent looks for it."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def end_with_parent(parent_pid: int) -> None:
    """Have this process killed when its parent `parent_pid` ends, which must be single-threaded; holds across `exec`.

    Without Linux a thread looks for the parent, and holds no longer than until an `exec`.
    """
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_end_group_after, args=(parent_pid,), daemon=True).start()
    if os.getppid() != parent_pid:
        os._exit(1)  # the parent died before the kernel watched it


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, instead of the system's first process."""
    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_group(leader_pid: int) -> None:
    """SIGKILL to every process of the group, if there is one."""
    # macOS answers EPERM for a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, signal.SIGKILL)


def _end_group_after(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(PARENT_CHECK_S)
    os.killpg(0, signal.SIGKILL)


def _prctl(option: int, argument: int) -> None:
    # Every argument is an unsigned long; an `int` passed bare would leave the upper half undefined.
    arguments = [ctypes.c_ulong(each) for each in (argument, 0, 0)]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *arguments) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
