"""The class of a server, loaded from its file."""

from __future__ import annotations

import ast
import hashlib
import sys
from pathlib import Path

from nemo_gym import PARENT_DIR
from nemo_gym.failures import ConfigError
from nemo_gym.processes.worker_main import load_file
from nemo_gym.serving.base import SimpleServer


def load_server_class(script: Path) -> type[SimpleServer]:
    """The class whose `run_webserver()` the file calls at its end. Raises `ConfigError` if there is none."""
    for folder in (str(PARENT_DIR), str(script.parents[2]), str(script.parent)):
        if folder not in sys.path:
            sys.path.append(folder)
    source = script.read_bytes()
    name = _class_run_by(ast.parse(source, str(script)))
    # Verifier workers load the module by its name, so it is one name for each file and content.
    digest = hashlib.sha256(bytes(script) + b"\0" + source).hexdigest()[:12]
    module = load_file(f"inline_{script.parent.name}_{digest}", str(script)) if name else None
    found = getattr(module, name or "", None)
    if not (isinstance(found, type) and issubclass(found, SimpleServer)):
        raise ConfigError(
            f"{script} can't be placed inline: it does not end with `MyServer.run_webserver()`",
            code="not_inline",
            remedy="Run each server in its own process: +placement=process.",
        )
    return found


def _class_run_by(tree: ast.AST) -> str | None:
    for element in ast.walk(tree):
        if (
            isinstance(element, ast.Call)
            and isinstance(element.func, ast.Attribute)
            and element.func.attr == "run_webserver"
            and isinstance(element.func.value, ast.Name)
        ):
            return element.func.value.id
    return None
