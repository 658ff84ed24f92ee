"""User ids that sandboxes own, each held by one live sandbox of this machine.

A program cannot signal, trace or read the processes of another user. A claim is a locked file, named after the id: the
kernel releases the lock when the gym and the supervisor have ended, and the file tells the next gym whose files and
processes a killed one has left. Ids are even: the next odd one belongs to the same sandbox, whose supervisor uses it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from functools import cache
from pathlib import Path

import psutil

from nemo_gym.failures import VerifierError
from nemo_gym.isolation.leftovers import PlaceLock, lock_place, remove_user_files
from nemo_gym.isolation.python_installation import COPIES
from nemo_gym.processes.process_tree import kill

__all__ = ["claim_user"]

_SPARSE_USERS = (1 << 24, 1 << 30)
"""A range of user ids that no real account uses, if the user namespace maps it."""
_ATTEMPTS = 1000
_PLACES = (COPIES, Path("/run/nemo_gym"))
"""Folders that only root can write to: the first that exists or can be made holds the claims."""


def build_user_command(uid: int, setpriv: str = "setpriv") -> list[str]:
    """Return the command that runs the rest as a user without groups and capabilities."""
    return [
        setpriv,
        *(f"--reuid={uid}", f"--regid={uid}", "--clear-groups"),
        *("--inh-caps=-all", "--no-new-privs"),
    ]


class SandboxUser:
    """The claim on a user id, held until `release`."""

    def __init__(self, uid: int, claim: PlaceLock, file: Path, *, leaves_files: bool) -> None:
        self.uid = uid
        self._claim, self._file, self._leaves_files = claim, file, leaves_files
        self._is_released = False

    def fileno(self) -> int:
        """The descriptor that holds the claim; a process that inherits it keeps the claim alive."""
        return self._claim.fileno()

    def release(self) -> None:
        """Delete what the user wrote, and let another sandbox use the id. No process of the user may be left."""
        if self._is_released:
            return
        self._is_released = True
        if self._leaves_files:
            remove_user_files({self.uid})
        self._file.unlink(missing_ok=True)
        self._claim.release()


def claim_user(*, leaves_files: bool = False) -> SandboxUser:
    """Claim an id that no live sandbox has. Raises VerifierError if there is none.

    `leaves_files` says that its programs write to folders of this machine, which `release` has to clean.
    """
    low, high = _read_user_range()
    folder = _find_claims_folder()
    for _ in range(_ATTEMPTS):
        uid = low + 2 * secrets.randbelow(max((high - low) // 2, 1))
        file = folder / str(uid)
        file.touch(mode=0o600)
        claim = lock_place(file)
        if claim is not None:
            return SandboxUser(uid, claim, file, leaves_files=leaves_files)
    raise VerifierError(
        f"No user id between {low} and {high} is free for a sandbox.", code="sandbox_failed", retryable=True
    )


def remove_dead_users() -> None:
    """End the processes, and delete the files, of users whose gym and supervisor were killed. For root."""
    claims = {int(file.name): (file, lock_place(file)) for file in _find_claims_folder().iterdir()}
    dead = {uid for uid, (_, claim) in claims.items() if claim is not None}
    if dead:
        for process in psutil.process_iter(["uids"]):
            if process.info["uids"] is not None and process.info["uids"].real in dead:
                kill(process.pid)
        remove_user_files(dead)
    for file, claim in claims.values():
        if claim is not None:
            file.unlink(missing_ok=True)
            claim.release()


@cache
def _find_claims_folder() -> Path:
    """Raises VerifierError if there is no place for it."""
    for place in _PLACES:
        with contextlib.suppress(OSError):
            place.mkdir(mode=0o755, parents=True, exist_ok=True)
            (place / "users").mkdir(mode=0o700, exist_ok=True)
            if os.access(place / "users", os.W_OK):
                return place / "users"
    raise VerifierError(
        f"The user ids of sandboxes cannot be recorded in {' or '.join(map(str, _PLACES))}.",
        code="sandbox_failed",
        remedy="Let the gym write to one of these folders.",
    )


def _read_user_range() -> tuple[int, int]:
    start, _, count = max(
        (tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()),
        key=lambda fields: fields[2],
    )
    if start == 0 and count > _SPARSE_USERS[1]:
        return _SPARSE_USERS
    low = start + count // 2
    return low + low % 2, start + count - 2
