"""The program that runs a confined program where no process namespace ends it.

    python _supervisor.py CONTROL_FD USER CGROUP FILTER COMMAND...

The gym holds the other end of CONTROL_FD. When the command exits, or the gym closes its end or dies, the supervisor
kills every process that the command has started, waits for their end, and exits with the command's status
(128 + its number for a signal). The supervisor is a subreaper, so they are its descendants, even if their parents have
ended. If they fork faster than they are killed, all processes of USER are killed at once, where there is one (`-` is
none).

CGROUP is the `cgroup.procs` file that the command enters, and FILTER a seccomp filter in hexadecimal; `-` is none.
The interpreter runs this file by its path, so it imports the standard library only.
"""

# ruff: noqa: PTH123, PTH208 - pathlib takes milliseconds to import

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

SET_NO_NEW_PRIVILEGES, SET_SECCOMP, SET_CHILD_SUBREAPER = 38, 22, 36
FILTER_MODE = 2
NONE = "-"
_SWEEP_INTERVAL_S = 0.002
_SWEEPS = 200
_ANY_CHILD = -1


class _FilterProgram(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def main(control: int, user: int | None, cgroup: str | None, call_filter: bytes, command: list[str]) -> int:
    """Run `command` and return the exit status."""
    libc = ctypes.CDLL(None, use_errno=True)
    set_option(libc, SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if child == 0:
        become(libc, cgroup, call_filter, command)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # the streams belong to the command alone
        os.dup2(nothing, stream)
    status = wait_for(child, control, woken)
    if not kill_descendants(sweeps=None if user is None else _SWEEPS):
        assert user is not None
        kill_all_of(user)
    return status if status is not None else 128 + signal.SIGKILL


def set_option(libc: ctypes.CDLL, option: int, *values: object) -> None:
    """Call prctl. Raises OSError."""
    words = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in values]
    if libc.prctl(option, *words, *(ctypes.c_ulong(0),) * (4 - len(words))) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def become(libc: ctypes.CDLL, cgroup: str | None, call_filter: bytes, command: list[str]) -> None:
    """Enter the cgroup, install the filter and execute the command. Does not return."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if cgroup is not None:
            with open(cgroup, "wb", buffering=0) as processes:
                processes.write(b"0")
        if call_filter:
            set_option(libc, SET_NO_NEW_PRIVILEGES, 1)
            program = _FilterProgram(len(call_filter) // 8, call_filter)
            set_option(libc, SET_SECCOMP, FILTER_MODE, ctypes.byref(program))
        os.execv(command[0], command)
    except BaseException as error:  # noqa: BLE001 - a fork must not return
        os.write(2, f"a confined program could not be started: {error}\n".encode())
        os._exit(127)


def wait_for(child: int, control: int, woken: int) -> int | None:
    """Reap processes until `child` exits, and return its status; None if the gym wants its end first."""
    poll = select.poll()
    poll.register(control, select.POLLIN | select.POLLHUP)
    poll.register(woken, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if woken in ready:
            os.read(woken, 4096)
        status = reap(child)
        if status is not None or control in ready:
            return status


def reap(child: int) -> int | None:
    """Reap every ended process, and return the status of `child` if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(_ANY_CHILD, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = exit_status(status)


def exit_status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def kill_all_of(user: int) -> None:
    """Kill every process of `user`, and wait for their end.

    One system call kills them all, so that none can fork meanwhile. It needs their effective user; the real and saved
    ones differ, so that they cannot kill this process first.
    """
    while is_alive(user):
        if os.geteuid() != user:
            os.setresuid(user + 1, user, user + 1)
        os.kill(-1, signal.SIGKILL)
        reap(0)
        time.sleep(_SWEEP_INTERVAL_S)


def is_alive(user: int) -> bool:
    """Return whether a process of `user` exists that is not a zombie. Another parent may have to reap zombies."""
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/status", "rb") as file:
                fields = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
        except OSError:  # ended
            continue
        users = fields[b"Uid"].split()
        if fields[b"State"].split()[0] not in (b"Z", b"X") and str(user).encode() in users:
            return True
    return False


def kill_descendants(sweeps: int | None) -> bool:
    """Kill the descendants until none is left, and return True; False if some are left after a number of sweeps."""
    while sweeps is None or sweeps > 0:
        if sweeps is not None:
            sweeps -= 1
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(_ANY_CHILD, os.WNOHANG)[0] != 0:
                pass
            time.sleep(_SWEEP_INTERVAL_S)
        except ChildProcessError:
            return True
    return False


def descendants(pid: int) -> list[int]:
    found = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += [int(child) for child in file.read().split()]
    except OSError:  # ended meanwhile
        pass
    return found + [below for child in found for below in descendants(child)]


if __name__ == "__main__":
    control_fd, user_id, procs_file, hex_filter, *rest = sys.argv[1:]
    sys.exit(
        main(
            int(control_fd),
            None if user_id == NONE else int(user_id),
            None if procs_file == NONE else procs_file,
            bytes.fromhex(hex_filter) if hex_filter != NONE else b"",
            rest,
        )
    )
