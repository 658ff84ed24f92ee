"""The program that reports, from inside a container, what an agent there could do: one JSON object.

    python container_facts.py PORT FOLDER

The container's interpreter gets this file's text, so it imports the standard library only.
"""

from __future__ import annotations

import json
import os
import socket
import sys

_TIMEOUT_S = 20.0


def text_of(*paths: str) -> str:
    """Return the text of the first of these files that can be read; empty if none can be."""
    for path in paths:
        try:
            with open(path) as file:  # noqa: PTH123 - pathlib takes milliseconds to import
                return file.read()
        except OSError:
            continue
    return ""


def answer_at(port: int) -> str:
    """Return what the loopback port says; the error if it says nothing."""
    try:
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection:
            return connection.recv(100).decode()
    except OSError as error:
        return str(error)


def facts(port: int, folder: str) -> dict[str, object]:
    """Return the facts that `container.py` compares with its promises."""
    status = dict(line.split(":", 1) for line in text_of("/proc/self/status").splitlines() if ":" in line)
    events = text_of("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
    kills = [line.split()[1] for line in events.splitlines() if line.startswith("oom_kill ")]
    interfaces = [line.split(":")[0].strip() for line in text_of("/proc/net/dev").splitlines()[2:]]
    return {
        "user": os.getuid(),
        "capabilities": [name for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb") if int(status[name], 16)],
        "no_new_privileges": status["NoNewPrivs"].strip() == "1",
        "interfaces": interfaces,
        "memory": text_of("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes").strip(),
        "processes": text_of("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max").strip(),
        "oom_kills": int(kills[0]) if kills else 0,
        "is_read_only": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
        "has_folder": os.access(folder, os.R_OK | os.W_OK | os.X_OK),
        "gateway": answer_at(port),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(facts(int(sys.argv[1]), sys.argv[2])))
