"""Load every configuration of the wheel with our validation, without starting a server. Runs beside the wheel.

Standard input: the paths of the files, relative to the current folder, one a line. Standard output: one JSON object a
line, `{"file", "problems": [text], "seconds"}`. An implementation is imported once for all configurations; with
`OPTIONS=0` none is, and the options of servers stay unchecked.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from nemo_gym.cli.e2e_collect_rollouts import COMMAND as COLLECT
from nemo_gym.config.loading import load
from nemo_gym.config.options import Inspection
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch._inspection_process import _inspections

LIMIT_S = 120.0
"""Seconds for the import of one implementation."""
POLICY = "responses_api_models/openai_model/configs/openai_model.yaml"
"""The model server of configurations that leave the policy to the user."""
GIVEN = (
    "policy_base_url=http://127.0.0.1:8000/v1",
    "policy_api_key=none",
    "policy_model_name=model",
    "head_server.port=0",
)
"""Values that a user gives on the command line."""

_context = get_context("fork")


@dataclass
class Loaded:
    """A configuration file and the problems found in it."""

    file: str
    problems: list[str] = field(default_factory=list)
    servers: Sequence[ServerInstance] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def keep(self, servers: Sequence[ServerInstance], data: Mapping[str, Any]) -> dict[str, Inspection]:
        """Keep the servers, to inspect them later together with those of the other files."""
        self.servers, self.data = servers, data
        return {}


def main() -> None:
    importlib.import_module("nemo_gym.launch._preload")
    files = [load_one(line.strip()) for line in sys.stdin]
    by_script: dict[Path, list[tuple[Loaded, ServerInstance]]] = defaultdict(list)
    for loaded in files:
        for server in loaded.servers:
            by_script[server.directory / server.entrypoint].append((loaded, server))
    gc.freeze()
    if os.environ.get("OPTIONS") != "0":
        for script, users in sorted(by_script.items()):
            inspect(script, users)
    for loaded in files:
        answer = {"file": loaded.file, "problems": loaded.problems, "seconds": loaded.seconds}
        print(json.dumps(answer), flush=True)


def load_one(file: str) -> Loaded:
    """Load one file with the policy that it leaves to the user."""
    loaded = Loaded(file)
    text = Path(file).read_text(encoding="utf-8")
    paths = [file] if "\npolicy_model:" in f"\n{text}" or POLICY in text else [file, POLICY]
    arguments = [f"+config_paths=[{','.join(paths)}]", *(f"++{each}" for each in GIVEN)]
    start = time.perf_counter()
    try:
        load(arguments, env_path=None, inspect=loaded.keep, other_keys=[COLLECT.keys])
    except ConfigErrors as errors:
        loaded.problems = [str(problem) for problem in errors.problems]
    except Exception as error:  # noqa: BLE001  # a fault of ours is a finding, not the end of the stage
        loaded.problems = [f"our loader failed: {type(error).__name__}: {error}"]
    loaded.seconds = round(time.perf_counter() - start, 3)
    return loaded


def inspect(script: Path, users: Sequence[tuple[Loaded, ServerInstance]]) -> None:
    """Validate the blocks of all `users` of an implementation by its own config class, in a fork."""
    reader, writer = _context.Pipe(duplex=False)
    child = _context.Process(target=_send, args=(writer, script, users))
    child.start()
    writer.close()
    try:
        answers = reader.recv() if reader.poll(LIMIT_S) else None
    except EOFError:
        answers = None
    if answers is None:
        child.kill()
        answers = [[f"{script}: the import ends the process or takes over {LIMIT_S:g} s"]] * len(users)
    child.join()
    for (loaded, _), problems in zip(users, answers, strict=True):
        loaded.problems += problems


def _send(writer: Connection, script: Path, users: Sequence[tuple[Loaded, ServerInstance]]) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    data = users[0][0].data
    found = _inspections(script, [server for _, server in users], data)
    writer.send([_problems_of(inspection) for _, inspection in found])


def _problems_of(inspection: Inspection) -> list[str]:
    problems = [fault.message for fault in inspection.faults]
    if inspection.code_fault is not None:
        file, line, message = inspection.code_fault
        problems.append(f"{file}:{line}: {message}")
    return problems


if __name__ == "__main__":
    main()
