"""Ask the implementations of servers about their options, in a process that is thrown away.

The process begins to import what all servers import as soon as it exists, on another core while the command reads
its configuration. So a command opens the inspector first and hands it to `nemo_gym.config.load`:

    with Inspector() as inspector:
        config = load(arguments, inspect=inspector.inspect)
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from nemo_gym import PARENT_DIR
from nemo_gym.config.options import Inspection
from nemo_gym.config.pydantic_problems import Fault
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch.errors import LaunchError

_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from nemo_gym.launch._inspection_process import main; main()"
)


class Inspector:
    """The process, and one question to it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # -P: the current folder must not shadow modules; the path of our own package comes last.
            [sys.executable, "-P", "-c", _PROGRAM, str(PARENT_DIR)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def inspect(self, servers: Sequence[ServerInstance], data: Mapping[str, Any]) -> dict[str, Inspection]:
        """What the implementation of each of `servers` says; raises `LaunchError` if the process is killed."""
        asked = [
            {"path": server.path, "script": str(server.directory / server.entrypoint)} for server in servers
        ]
        answer, _ = self._process.communicate(json.dumps({"servers": asked, "data": data}).encode())
        if self._process.returncode:
            raise LaunchError(
                "the process that checks the options of servers is gone",
                code="inspection_failed",
                remedy="It was killed; where memory was short, the system did so.",
            )
        return {name: _inspection_of(**said) for name, said in json.loads(answer).items()}

    def __enter__(self) -> Inspector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def _inspection_of(faults: list[Any], code_fault: list[Any] | None, unchecked: str | None) -> Inspection:
    read = [Fault(tuple(path), *rest) for path, *rest in faults]
    return Inspection(read, (code_fault[0], code_fault[1], code_fault[2]) if code_fault else None, unchecked)
