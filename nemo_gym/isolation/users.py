"""User ids that sandboxes own, each held by one live sandbox of this machine.

A program cannot signal, trace or read the processes of another user. The kernel holds a claim: an abstract socket,
named after the id, that ends with the process that bound it. Ids are even: the next odd one belongs to the same
sandbox, whose supervisor uses it.
"""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

from nemo_gym.failures import VerifierError

_SPARSE_USERS = (1 << 24, 1 << 30)
"""A range of user ids that no real account uses, if the user namespace maps it."""
_ATTEMPTS = 1000
_SOCKET_NAME = "\0nemo_gym_sandbox_user_{}"


class SandboxUser:
    """The claim on a user id, held until `release`."""

    def __init__(self, uid: int, claim: socket.socket) -> None:
        self.uid = uid
        self._claim = claim

    def fileno(self) -> int:
        """The descriptor that holds the claim; a process that inherits it keeps the claim alive."""
        return self._claim.fileno()

    def release(self) -> None:
        """Let another sandbox use the id. No process of the user may be left."""
        self._claim.close()


def claim_user() -> SandboxUser:
    """Claim an id that no live sandbox has. Raises VerifierError if there is none."""
    low, high = _range_of_users()
    for _ in range(_ATTEMPTS):
        uid = low + 2 * secrets.randbelow(max((high - low) // 2, 1))
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(_SOCKET_NAME.format(uid))
        except OSError:  # another sandbox has it
            claim.close()
            continue
        return SandboxUser(uid, claim)
    raise VerifierError(
        f"No user id between {low} and {high} is free for a sandbox.", code="sandbox_failed", retryable=True
    )


def _range_of_users() -> tuple[int, int]:
    start, _, count = max(
        (tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()),
        key=lambda fields: fields[2],
    )
    if start == 0 and count > _SPARSE_USERS[1]:
        return _SPARSE_USERS
    low = start + count // 2
    return low + low % 2, start + count - 2
