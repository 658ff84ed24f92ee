"""The inspection of one implementation, in a fork: its `app.py` is imported as a server would import it."""

from __future__ import annotations

import gc
import os
import socket
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_gym import PARENT_DIR
from nemo_gym.config.options import Inspection, option_faults
from nemo_gym.config.ray_environment import KEY as RAY_ENVIRONMENT
from nemo_gym.config.servers import ServerInstance, find_root
from nemo_gym.failures import ConfigError
from nemo_gym.launch.inspection import CHANNEL_FD
from nemo_gym.processes import messages

if TYPE_CHECKING:
    from nemo_gym.serving.base import SimpleServer

_OF_OTHER_VERSIONS = (ImportError, AttributeError, TypeError)
"""Errors of an import that may be caused by a missing package or by another version of it."""


def main() -> None:
    """Receive the file, its servers and the configuration, and send the inspections by server name."""
    gc.disable()  # the process ends before there is garbage worth collecting
    channel = socket.socket(fileno=CHANNEL_FD)
    messages.send(channel, dict(_inspections(*messages.receive(channel))))
    os._exit(0)  # an implementation may have started threads, and the end of an interpreter takes long


def _inspections(
    script: Path, servers: Sequence[ServerInstance], data: Mapping[str, Any]
) -> Iterator[tuple[str, Inspection]]:
    try:
        model = load_as_server(script, servers[0].name, data).config_class()
        for server in servers:
            faults = list(option_faults(model, server.config, server.path, data["default_host"]))
            # Code that runs in a provider's sandboxes needs no isolation of this machine.
            runs_code = getattr(model, "RUNS_CODE", False) and not server.config.get("sandbox_provider")
            yield server.name, Inspection(faults, runs_code=bool(runs_code))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # author code may raise anything
        inspection = _inspect_failure(error, script, data)
        yield from ((server.name, inspection) for server in servers)


def load_as_server(script: Path, name: str, data: Mapping[str, Any]) -> type[SimpleServer]:
    """Return the class of the server that `script` runs, imported as by the server `name` itself."""
    from nemo_gym.config import bootstrap
    from nemo_gym.launch._implementation import load_server_class

    folder = script.parent
    bootstrap.set_current(bootstrap.Bootstrap(name, dict(data), "", "", []))
    sys.path[:0] = [str(folder), str(find_root(folder)), str(PARENT_DIR)]
    os.chdir(folder)
    return load_server_class(script)


def _inspect_failure(error: BaseException, script: Path, data: Mapping[str, Any]) -> Inspection:
    if isinstance(error, ConfigError) and error.failure.code == "not_inline":
        return Inspection(unchecked=f"{script.name} does not end with `MyServer.run_webserver()`")
    if isinstance(error, _OF_OTHER_VERSIONS) and (missing := _unmet_requirements(script.parent, error)):
        return Inspection(unchecked=f"its requirements are not met: {', '.join(missing)}")
    if data.get(RAY_ENVIRONMENT) is not None and (module := _find_missing_module(error)):
        return Inspection(unchecked=f"this machine has no module {module}, which {RAY_ENVIRONMENT} may bring")
    file, line = _find_place(error, script)
    fault = (file, line, f"The code fails: {_describe_error(error)}.")
    return Inspection(code_fault=fault, remedy=_suggest_package(error))


def _unmet_requirements(folder: Path, error: BaseException) -> list[str]:
    """Return the unmet lines of `requirements.txt`; of a folder that is a project, the module that `error` misses."""
    from nemo_gym.launch._requirements import find_unsatisfied, read_requirements
    from nemo_gym.launch.plan import REQUIREMENTS_FILE

    file = folder / REQUIREMENTS_FILE
    if file.is_file():
        return find_unsatisfied(read_requirements(file))
    is_project = (folder / "pyproject.toml").is_file()
    missing = _find_missing_module(error)
    return [missing] if is_project and missing else []


def _find_missing_module(error: BaseException) -> str:
    """Return the name of the package that is not installed; empty if none, or this one, is missing."""
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return "" if missing == "nemo_gym" else missing


def _suggest_package(error: BaseException) -> str | None:
    """Return the remedy for a package that is not installed. A missing part of an installed one is a wrong name."""
    missing = _find_missing_module(error)
    if not missing or not isinstance(error, ModuleNotFoundError) or error.name != missing:
        return None
    return (
        f"Add {missing}, or the package that has it, to requirements.txt of the server, or correct the name."
    )


def _find_place(error: BaseException, script: Path) -> tuple[str, int | None]:
    """Return the line of a syntax error, or else the innermost line of the traceback in the server's folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [place for place in frames if Path(place[0]).is_relative_to(script.parent)]
    return own[-1] if own else (str(script), None)


def _describe_error(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message.strip()}".strip().rstrip(".:")
