"""The program that runs a confined program where no process namespace ends it.

    python _supervisor.py CONTROL_FD USER CGROUPS FOLDERS FILTER COMMAND...

The gym holds the other end of CONTROL_FD. When the command exits, or the gym closes its end or dies, the supervisor
kills every process that the command has started, waits for their end, and exits with the command's status
(128 + its number for a signal). The supervisor is a subreaper, so they are its descendants, even if their parents have
ended. If they fork faster than they are killed, all processes of USER are killed at once, where there is one (`-` is
none).

CGROUPS are the `cgroup.procs` files that the command enters, as a list in JSON, FOLDERS its private folders
(`OwnFolders` as JSON), and FILTER a seccomp filter in hexadecimal; `-` is none.
The interpreter runs this file by its path, so it imports the standard library only.
"""

# ruff: noqa: PTH103, PTH110, PTH112, PTH120, PTH123, PTH208 - pathlib takes milliseconds to import

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import struct
import sys
import time
from typing import TypedDict

SET_NO_NEW_PRIVILEGES, SET_SECCOMP, SET_CHILD_SUBREAPER = 38, 22, 36
FILTER_MODE = 2
NEW_MOUNTS, NEW_IPC, NEW_USER = 0x20000, 0x8000000, 0x10000000
READ_ONLY, NO_SET_USER, NO_DEVICES, BIND, RECURSIVE, PRIVATE = 0x1, 0x2, 0x4, 0x1000, 0x4000, 0x40000
CHANGE_MOUNT, CURRENT_FOLDER, WHOLE_TREE = 442, -100, 0x8000
NONE = "-"
_SWEEP_INTERVAL_S = 0.002
_SWEEPS = 200
_ANY_CHILD = -1
_MOST_DESCRIPTORS = 1 << 16


class _FilterProgram(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class OwnFolders(TypedDict):
    """The view of the file system that a program gets in a mount namespace of its own."""

    read_only: list[str]
    """Folders in which nothing can be changed, with all below them."""
    empty: list[str]
    """Folders that are replaced by empty file systems in memory, which end with the program."""
    options: str
    """Mount options of these: their most bytes and inodes."""
    shown: list[str]
    """Files and folders that stay to be seen in an empty folder."""
    workspace: str | None
    """A folder that the program can write to; it starts there, or else in the first empty folder."""


def main(
    control: int,
    user: int | None,
    cgroups: list[str],
    folders: OwnFolders | None,
    call_filter: bytes,
    command: list[str],
) -> int:
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
        become(libc, cgroups, folders, call_filter, command)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # the streams belong to the command alone
        os.dup2(nothing, stream)
    status = wait_for(child, control, woken)
    if not kill_descendants(sweeps=None if user is None else _SWEEPS):
        assert user is not None
        kill_processes(user)
    return status if status is not None else 128 + signal.SIGKILL


def set_option(libc: ctypes.CDLL, option: int, *values: object) -> None:
    """Call prctl. Raises OSError."""
    words = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in values]
    check(libc.prctl(option, *words, *(ctypes.c_ulong(0),) * (4 - len(words))), f"prctl({option})")


def become(
    libc: ctypes.CDLL, cgroups: list[str], folders: OwnFolders | None, call_filter: bytes, command: list[str]
) -> None:
    """Enter the cgroups and the folders, install the filter and execute the command. Does not return."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for group in cgroups:
            with open(group, "wb", buffering=0) as processes:
                processes.write(b"0")
        if folders is not None:
            enter_own_folders(libc, folders)
        if call_filter:
            set_option(libc, SET_NO_NEW_PRIVILEGES, 1)
            program = _FilterProgram(len(call_filter) // 8, call_filter)
            set_option(libc, SET_SECCOMP, FILTER_MODE, ctypes.byref(program))
        os.closerange(3, _MOST_DESCRIPTORS)
        os.execv(command[0], command)
    except BaseException as error:  # noqa: BLE001 - a fork must not return
        os.write(2, f"a confined program could not be started: {error}\n".encode())
        os._exit(127)


def enter_own_folders(libc: ctypes.CDLL, folders: OwnFolders) -> None:
    """Enter namespaces for mounts and IPC, with these folders. Raises OSError where the kernel denies it."""
    user, group = os.geteuid(), os.getegid()
    check(libc.unshare(NEW_MOUNTS | NEW_IPC | (NEW_USER if user else 0)), "unshare")
    if user:
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    mount(libc, "none", "/", RECURSIVE | PRIVATE)
    os.umask(0o022)
    workspace = folders["workspace"]
    kept = {
        path: os.open(path, os.O_PATH) for path in (*folders["shown"], *([workspace] if workspace else []))
    }
    for folder in folders["read_only"]:
        if folder != "/":
            mount(libc, folder, folder, BIND | RECURSIVE)
        set_read_only(libc, folder, is_read_only=True)
    for folder in folders["empty"]:
        mount(libc, "tmpfs", folder, NO_SET_USER | NO_DEVICES, "tmpfs", folders["options"])
    for path, descriptor in kept.items():
        make_place(path, is_folder=os.path.isdir(f"/proc/self/fd/{descriptor}"))
        mount(libc, f"/proc/self/fd/{descriptor}", path, BIND | RECURSIVE)
        if path == workspace and "/" in folders["read_only"]:
            set_read_only(libc, path, is_read_only=False)
    os.chdir(workspace or folders["empty"][0])


def make_place(path: str, *, is_folder: bool) -> None:
    """Create the file or folder that another is mounted on, if it is hidden."""
    if os.path.exists(path):
        return
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def mount(libc: ctypes.CDLL, source: str, place: str, flags: int, kind: str = "", options: str = "") -> None:
    words = [text.encode() for text in (source, place, kind, options)]
    check(libc.mount(*words[:3], ctypes.c_ulong(flags), words[3]), f"mount {place}")


def set_read_only(libc: ctypes.CDLL, place: str, *, is_read_only: bool) -> None:
    """Change a mount and those below it."""
    attributes = struct.pack("4Q", *((READ_ONLY, 0) if is_read_only else (0, READ_ONLY)), 0, 0)
    done = libc.syscall(CHANGE_MOUNT, CURRENT_FOLDER, place.encode(), WHOLE_TREE, attributes, len(attributes))
    check(done, f"mount_setattr {place}")


def check(result: int, call: str) -> None:
    """Raise OSError if a call failed."""
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}")


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


def kill_processes(user: int) -> None:
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
    control_fd, user_id, groups, own_folders, hex_filter, *rest = sys.argv[1:]
    sys.exit(
        main(
            int(control_fd),
            None if user_id == NONE else int(user_id),
            json.loads(groups),
            None if own_folders == NONE else json.loads(own_folders),
            bytes.fromhex(hex_filter) if hex_filter != NONE else b"",
            rest,
        )
    )
