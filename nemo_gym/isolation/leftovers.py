"""Remains of confined programs on the disk: files of their users, folders of gyms that were killed.

A live workspace is locked by its gym, and a live user's record by its gym and supervisor (`nemo_gym.isolation.users`).
The kernel releases the locks of a killed process, so that the next gym finds what to delete.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path

WORKSPACE_PREFIX = "nemo_gym_workspace_"
_REMOVE = 'chmod -R u+rwX -- "$0"; rm -rf -- "$0"'
_NOT_ON_DISK = frozenset({"/proc", "/sys"})
_LOOKS_BELOW = 3
"""Folders below each other in which folders are looked for that every user can write to."""


class PlaceLock:
    """The lock on a file or folder, held until `release` or the end of the processes that have its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def fileno(self) -> int:
        """The descriptor that holds the lock."""
        assert self._descriptor is not None
        return self._descriptor

    def release(self) -> None:
        """Let other processes lock the place. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_place(place: Path) -> PlaceLock | None:
    """Lock a file or folder; return None if another process has locked it, or it is gone.

    Raises PermissionError for a place of another user.
    """
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if place.stat(follow_symlinks=False).st_ino == os.fstat(descriptor).st_ino:
            return PlaceLock(descriptor)
    except OSError:  # locked, or gone
        pass
    os.close(descriptor)
    return None


def remove_tree(folder: Path) -> None:
    """Delete a file or folder that a program wrote, without following links."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            folder.unlink()
            return
    # Python cannot remove a deep tree, and neither can a user who may not read a folder in it.
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        subprocess.run(["/bin/sh", "-c", _REMOVE, str(folder)], capture_output=True, check=False)


def remove_dead_workspaces(parent: Path | None = None) -> None:
    """Delete the workspaces of gyms that were killed, by default in the temporary folder."""
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{WORKSPACE_PREFIX}*"):
        with contextlib.suppress(PermissionError):
            lock = lock_place(folder)
            if lock is not None:
                remove_tree(folder)
                lock.release()


def remove_user_files(users: Container[int]) -> None:
    """Delete the files of ended users from the folders that every user can write to. For root."""
    for entry in _list_entries(users):
        remove_tree(entry)


def count_entries(folder: Path, most: int) -> int:
    """Count the files and folders below a folder, up to `most`. It may change meanwhile."""
    count, waiting = 0, [folder]
    while waiting and count < most:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                count += 1
                if count >= most:
                    break
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
    return count


def count_user_entries(user: int, most: int) -> int:
    """Count the files of a user in the folders that every user can write to, up to `most`. For root."""
    count = 0
    for entry in _list_entries({user}):
        count += 1
        if count < most and entry.is_dir() and not entry.is_symlink():
            count += count_entries(entry, most - count)
        if count >= most:
            break
    return count


def _list_entries(users: Container[int]) -> Iterator[Path]:
    """Yield the highest files and folders of users in the folders that every user can write to."""
    waiting = list(open_folders())
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # gone
                    status = entry.stat(follow_symlinks=False)
                    if status.st_uid in users:
                        yield Path(entry.path)
                    elif _is_open(status) and Path(entry.path) not in open_folders():
                        waiting.append(Path(entry.path))


@cache
def open_folders() -> tuple[Path, ...]:
    """The folders of this machine that every user can write to, but for those in deep or closed ones."""
    found, waiting = [], [(Path("/"), 0)]
    while waiting:
        folder, depth = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # gone
                    status = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(status.st_mode) or entry.path in _NOT_ON_DISK:
                        continue
                    if _is_open(status):
                        found.append(Path(entry.path))
                    elif depth + 1 < _LOOKS_BELOW:
                        waiting.append((Path(entry.path), depth + 1))
    return tuple(found)


def _is_open(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_IWOTH)
