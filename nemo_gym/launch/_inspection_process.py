"""The child process of an `Inspector`: it inspects every implementation and sends one answer.

Each `app.py` is imported in its own fork, in the environment in which a server would import it. Two implementations
may therefore have modules of the same name, and one that ends its process does not end the others.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import multiprocessing
import os
import socket
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from nemo_gym import PARENT_DIR
from nemo_gym.config.options import Inspection, option_faults
from nemo_gym.config.servers import ServerInstance
from nemo_gym.failures import ConfigError
from nemo_gym.processes import messages

IMPORT_TIMEOUT_S = 120.0
"""Seconds that all imports may take together. The start of a server has its own limit."""
_OF_OTHER_VERSIONS = (ImportError, AttributeError, TypeError)
"""Errors of an import that may be caused by a missing package or by another version of it."""

_context = multiprocessing.get_context("fork")


def main(channel: socket.socket) -> None:
    """Receive the servers and the configuration, and send the inspections by server name."""
    gc.disable()  # the process ends before there is garbage worth collecting
    with Path(os.devnull).open("w") as discarded:  # the output of implementations
        for descriptor in (1, 2):
            os.dup2(discarded.fileno(), descriptor)
    # The inspection of an implementation reports the same error with its place.
    with contextlib.suppress(ImportError):
        importlib.import_module("nemo_gym.launch._preload")
    with contextlib.suppress(EOFError):  # the command ended before it had servers to inspect
        messages.send(channel, inspect_all(*messages.receive(channel)))


def inspect_all(servers: Sequence[ServerInstance], data: Mapping[str, Any]) -> dict[str, Inspection]:
    """Return the inspections by server name. Each implementation is imported once."""
    by_script = groupby(sorted(servers, key=_script_of), key=_script_of)
    forks = [_ForkedInspection(script, list(users), data) for script, users in by_script]
    deadline = time.monotonic() + IMPORT_TIMEOUT_S
    return {name: inspection for fork in forks for name, inspection in fork.result(deadline)}


def _script_of(server: ServerInstance) -> Path:
    return server.directory / server.entrypoint


class _ForkedInspection:
    """The inspection of one implementation, in a fork of this process."""

    def __init__(self, script: Path, servers: Sequence[ServerInstance], data: Mapping[str, Any]) -> None:
        self._script, self._servers = script, servers
        self._reader, writer = _context.Pipe(duplex=False)
        self._process = _context.Process(target=_send_inspections, args=(writer, script, servers, data))
        self._process.start()
        writer.close()

    def result(self, deadline: float) -> Iterator[tuple[str, Inspection]]:
        """Yield the inspection of each server; all are the same if the import fails or exceeds the deadline."""
        try:
            if self._reader.poll(max(0.0, deadline - time.monotonic())):
                yield from self._reader.recv()
                return
            inspection = Inspection(unchecked=f"it takes over {IMPORT_TIMEOUT_S:g} s to import")
            self._process.kill()
        except EOFError:
            self._process.join()
            message = (
                f"The process ended with exit code {self._process.exitcode} while the file was imported."
            )
            inspection = Inspection(code_fault=(str(self._script), None, message))
        for server in self._servers:
            yield server.name, inspection


def _send_inspections(
    writer: Connection, script: Path, servers: Sequence[ServerInstance], data: Mapping[str, Any]
) -> None:
    writer.send(list(_inspections(script, servers, data)))


def _inspections(
    script: Path, servers: Sequence[ServerInstance], data: Mapping[str, Any]
) -> Iterator[tuple[str, Inspection]]:
    try:
        model = _config_class(script, servers[0].name, data)
        for server in servers:
            if model is None:
                yield (
                    server.name,
                    Inspection(unchecked=f"{script.name} does not end with `MyServer.run_webserver()`"),
                )
                continue
            faults = list(option_faults(model, server.config, server.path, data["default_host"]))
            yield server.name, Inspection(faults)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # author code may raise anything
        inspection = _inspection_of_failure(error, script)
        yield from ((server.name, inspection) for server in servers)


def _config_class(script: Path, name: str, data: Mapping[str, Any]) -> type[BaseModel] | None:
    """Return the config class of the server that `script` runs, or None if it runs no server of this gym."""
    from nemo_gym.config import bootstrap
    from nemo_gym.launch.inline import config_class_of, load_server_class

    folder = script.parent
    bootstrap.set_current(bootstrap.Bootstrap(name, dict(data), "", "", []))
    sys.path[:0] = [str(folder), str(folder.parents[1]), str(PARENT_DIR)]
    os.chdir(folder)
    try:
        return config_class_of(load_server_class(script))
    except ConfigError as error:
        if error.failure.code == "not_inline":
            return None
        raise


def _inspection_of_failure(error: BaseException, script: Path) -> Inspection:
    if isinstance(error, _OF_OTHER_VERSIONS) and (missing := _unmet_requirements(script.parent)):
        return Inspection(unchecked=f"its requirements are not met: {', '.join(missing)}")
    file, line = _place_of(error, script)
    return Inspection(code_fault=(file, line, f"The code fails: {_text_of(error)}."))


def _unmet_requirements(folder: Path) -> list[str]:
    from nemo_gym.launch._requirements import find_unsatisfied, read_requirements
    from nemo_gym.launch.plan import REQUIREMENTS_FILE

    file = folder / REQUIREMENTS_FILE
    return find_unsatisfied(read_requirements(file)) if file.is_file() else []


def _place_of(error: BaseException, script: Path) -> tuple[str, int | None]:
    """Return the line of a syntax error, or else the innermost line of the traceback in the server's folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [place for place in frames if Path(place[0]).is_relative_to(script.parent)]
    return own[-1] if own else (str(script), None)


def _text_of(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message.strip()}".strip().rstrip(".:")
