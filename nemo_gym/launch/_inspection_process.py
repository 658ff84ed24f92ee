"""The process behind an `Inspector`: it reads one question, asks every implementation, answers, and ends.

Each `app.py` is imported in a fork of its own, as servers would import it: a module that two of them call by one
name is not mixed up, and an implementation that ends its process takes no other along.
"""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from nemo_gym import PARENT_DIR
from nemo_gym.config.options import Inspection, option_faults
from nemo_gym.failures import ConfigError

IMPORT_TIMEOUT_S = 120.0
"""An implementation that takes longer to import is not checked; its start has a limit of its own."""
_OF_OTHER_VERSIONS = (ImportError, AttributeError, TypeError)
"""What an import may fail with for the want of a package, or of another version of it."""

_context = multiprocessing.get_context("fork")


class _Asked(NamedTuple):
    path: tuple[str, str, str]
    script: Path


def main() -> None:
    """Answer the question on standard input on standard output; what implementations print goes elsewhere."""
    gc.disable()  # the process ends before there is garbage worth collecting
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        with contextlib.suppress(ImportError):  # the implementation that needs it tells better what is wrong
            pass
        question = json.load(sys.stdin)
        asked = [_Asked(tuple(each["path"]), Path(each["script"])) for each in question["servers"]]
        inspections = inspect_all(asked, question["data"])
        json.dump({name: asdict(inspection) for name, inspection in inspections.items()}, answers)


def inspect_all(servers: Sequence[_Asked], data: Mapping[str, Any]) -> dict[str, Inspection]:
    """What the implementations of `servers` say, by the servers' names; each is imported once."""
    by_script = groupby(sorted(servers, key=lambda each: each.script), key=lambda each: each.script)
    running = [_ForkedInspection(script, list(users), data) for script, users in by_script]
    give_up_at = time.monotonic() + IMPORT_TIMEOUT_S
    return {name: said for fork in running for name, said in fork.result(give_up_at)}


class _ForkedInspection:
    """The inspection of one implementation, in a fork of this process."""

    def __init__(self, script: Path, servers: Sequence[_Asked], data: Mapping[str, Any]) -> None:
        self._script, self._servers = script, servers
        self._reader, writer = _context.Pipe(duplex=False)
        self._process = _context.Process(target=_send_inspections, args=(writer, script, servers, data))
        self._process.start()
        writer.close()

    def result(self, give_up_at: float) -> Iterator[tuple[str, Inspection]]:
        """What it says about each server; the same about all where it could not be asked."""
        try:
            if self._reader.poll(max(0.0, give_up_at - time.monotonic())):
                yield from self._reader.recv()
                return
            said = Inspection(unchecked=f"it takes over {IMPORT_TIMEOUT_S:g} s to import")
            self._process.kill()
        except EOFError:
            self._process.join()
            message = (
                f"The process ended with exit code {self._process.exitcode} while the file was imported."
            )
            said = Inspection(code_fault=(str(self._script), None, message))
        for server in self._servers:
            yield server.path[0], said


def _send_inspections(
    writer: Connection, script: Path, servers: Sequence[_Asked], data: Mapping[str, Any]
) -> None:
    writer.send(list(_inspections(script, servers, data)))


def _inspections(
    script: Path, servers: Sequence[_Asked], data: Mapping[str, Any]
) -> Iterator[tuple[str, Inspection]]:
    name, kind, implementation = servers[0].path
    try:
        model = _config_class(script, name, data)
        for server in servers:
            name, kind, implementation = server.path
            block = data[name][kind][implementation]
            faults = list(option_faults(model, block, server.path, data["default_host"])) if model else []
            unchecked = None if model else f"{script.name} does not end with `MyServer.run_webserver()`"
            yield name, Inspection(faults, unchecked=unchecked)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever an author's code raises is what is asked for
        said = _inspection_of_failure(error, script)
        yield from ((server.path[0], said) for server in servers)


def _config_class(script: Path, name: str, data: Mapping[str, Any]) -> type[BaseModel] | None:
    """The config class of the server that `script` runs; None where that is not one of ours."""
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
    """The line that is wrong: of a syntax error its own, or else the innermost one in the server's folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [place for place in frames if Path(place[0]).is_relative_to(script.parent)]
    return own[-1] if own else (str(script), None)


def _text_of(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message.strip()}".strip().rstrip(".:")
