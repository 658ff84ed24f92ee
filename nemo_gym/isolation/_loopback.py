"""The program that brings up the loopback interface of a new network namespace, and executes the rest of its command.

    unshare --net python _loopback.py COMMAND...

The interpreter runs this file by its path, so it imports the standard library only.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys

_SET_FLAGS = 0x8914
_UP_AND_RUNNING = 0x41


def bring_up(name: str = "lo") -> None:
    """Bring a network interface up. Raises OSError without the capability."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", name.encode(), _UP_AND_RUNNING))


if __name__ == "__main__":
    bring_up()
    os.execv(sys.argv[1], sys.argv[1:])
