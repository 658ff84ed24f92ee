"""Load every configuration of the wheel with our validation, without starting a server. Runs beside the wheel.

Standard input: the paths of the files, relative to the current folder, one a line. Standard output: one JSON object a
line, `{"file", "arguments": [text], "problems": [text], "seconds"}`. An implementation is imported once for all
configurations; with `OPTIONS=0` none is, and the options of servers stay unchecked.

A user gives some values on the command line, and so does the probe: the policy, a token for servers that other machines
reach, the environment variables that the configuration names, and a text for each top-level key that is null.
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
from nemo_gym.config.keys import GlobalKeys
from nemo_gym.config.loading import GlobalConfig, load
from nemo_gym.config.options import Inspection
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch._inspection_process import _inspections
from tests.ecosystem_wheel.given import set_variables, value_of

LIMIT_S = 600.0
"""Seconds for the import of one implementation, on a busy machine too."""
POLICIES = ("openai_model", "vllm_model")
"""The model servers of configurations that leave the policy to the user; the first that is allowed is used."""
POLICY_FILES = tuple(f"responses_api_models/{model}/configs/{model}.yaml" for model in POLICIES)
GIVEN = (
    "policy_base_url=http://127.0.0.1:8000/v1",
    "policy_api_key=none",
    "policy_model_name=model",
    "head_server.port=0",
    "run_token=a-token-that-other-machines-need",
)
"""Values that a user gives on the command line."""

_context = get_context("fork")


@dataclass
class Loaded:
    """A configuration file with the values that a user gives, and the problems found in it."""

    file: str
    arguments: Sequence[str] = ()
    problems: list[str] = field(default_factory=list)
    servers: Sequence[ServerInstance] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    inspections: dict[str, Inspection] = field(default_factory=dict)
    seconds: float = 0.0

    def keep(self, servers: Sequence[ServerInstance], data: Mapping[str, Any]) -> dict[str, Inspection]:
        """Keep the servers, to inspect them later together with those of the other files."""
        self.servers, self.data = servers, data
        return {}

    def check(self) -> None:
        """Find the problems, with the inspections made so far."""
        start = time.perf_counter()
        self.problems = problems_of(self.arguments, lambda *_: self.inspections)
        self.seconds = round(time.perf_counter() - start, 3)


def main() -> None:
    importlib.import_module("nemo_gym.launch._preload")
    files = [Loaded(line.strip()) for line in sys.stdin]
    set_variables()
    for loaded in files:
        choose_arguments(loaded)
    by_script: dict[Path, list[tuple[Loaded, ServerInstance]]] = defaultdict(list)
    for loaded in files:
        for server in loaded.servers:
            by_script[server.directory / server.entrypoint].append((loaded, server))
    gc.freeze()
    if os.environ.get("OPTIONS") != "0":
        for script, users in sorted(by_script.items()):
            inspect(script, users)
    for loaded in files:
        loaded.check()
        answer = {
            "file": loaded.file,
            "arguments": loaded.arguments,
            "problems": loaded.problems,
            "seconds": loaded.seconds,
        }
        print(json.dumps(answer), flush=True)


def choose_arguments(loaded: Loaded) -> None:
    """Set the command line: the first policy with which the file loads, and the values that it leaves open."""
    own = [f"+config_paths=[{loaded.file}]"]
    with_policy = [[f"+config_paths=[{loaded.file},{policy}]"] for policy in POLICY_FILES]
    given = [f"++{each}" for each in GIVEN]
    for line in [*with_policy, own]:
        loaded.arguments = [*line, *given]
        nulls: dict[str, str] = {}
        problems = problems_of(loaded.arguments, loaded.keep, nulls)
        if nulls:
            loaded.arguments = [*loaded.arguments, *(f"++{name}={value_of(name)}" for name in nulls)]
            problems = problems_of(loaded.arguments, loaded.keep)
        if not problems:
            return
    loaded.arguments = [*with_policy[0], *given]


def problems_of(arguments: Sequence[str], inspect: Any, nulls: dict[str, str] | None = None) -> list[str]:
    """Return the problems of a command line. Adds the top-level keys that are null to `nulls`."""
    try:
        config = load(arguments, env_path=None, inspect=inspect, other_keys=[COLLECT.keys])
    except ConfigErrors as errors:
        return [str(problem) for problem in errors.problems]
    except Exception as error:  # noqa: BLE001  # a fault of ours is a finding, not the end of the stage
        return [f"our loader failed: {type(error).__name__}: {error}"]
    if nulls is not None:
        nulls |= dict.fromkeys(_open_keys(config), "")
    return []


def _open_keys(config: GlobalConfig) -> list[str]:
    known = {*GlobalKeys.model_fields, *COLLECT.keys.model_fields}
    return [key for key, value in config.data.items() if value is None and key not in known]


def inspect(script: Path, users: Sequence[tuple[Loaded, ServerInstance]]) -> None:
    """Inspect the blocks of all `users` of an implementation, in a fork."""
    reader, writer = _context.Pipe(duplex=False)
    child = _context.Process(target=_send, args=(writer, script, users))
    child.start()
    writer.close()
    try:
        found = reader.recv() if reader.poll(LIMIT_S) else None
    except EOFError:
        found = None
    if found is None:
        child.kill()
        message = f"the import ends the process or takes over {LIMIT_S:g} s"
        found = [Inspection(code_fault=(str(script), None, message))] * len(users)
    child.join()
    for (loaded, server), inspection in zip(users, found, strict=True):
        loaded.inspections[server.name] = inspection


def _send(writer: Connection, script: Path, users: Sequence[tuple[Loaded, ServerInstance]]) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    servers = [server for _, server in users]
    writer.send([inspection for _, inspection in _inspections(script, servers, users[0][0].data)])


if __name__ == "__main__":
    main()
