"""Harness programs of verifiers, on this interpreter, each in a process that is forked from a warm one.

The framework installs the packages of a program from an index at its first use, and starts an interpreter for each
turn, which imports them for a second or two. The lock of verifiers has the packages of its chat loop, so a process that
has imported them is kept, and every turn is a fork of it: own folder, own variables, own group, and output to files.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import multiprocessing
import os
import re
import signal
import sys
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from verifiers.v1.runtimes.base import ProgramResult
from verifiers.v1.runtimes.subprocess import SubprocessRuntime

from .verifiers_configuration import list_missing

_WARM: Final = ["openai", "mcp", "mcp.client.streamable_http", "httpx", "httpx2", "tenacity", "certifi"]
_BLOCK = re.compile(r"^# /// script\n(?P<lines>(?:#.*\n)*?)# ///$", re.MULTILINE)
_DEPENDENCIES = re.compile(r"^# dependencies = \[(.*?)\]", re.MULTILINE | re.DOTALL)
_FORKED: Final = """
import os, runpy, sys
os.setsid()
os.chdir(folder)
os.environ.clear()
os.environ.update(variables)
for number, path in enumerate(outputs, 1):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(file, number)
    os.close(file)
sys.argv = arguments
sys.path[0] = os.path.dirname(arguments[0])
runpy.run_path(arguments[0], run_name="__main__")
"""
"""The source of a forked process, which cannot import this module."""


def take_programs() -> None:
    """Let subprocess runtimes fork their harness programs, and start the process from which they are forked."""
    SubprocessRuntime.prepare_uv_script = prepare_program
    SubprocessRuntime.run_program = run_program
    forkserver.set_forkserver_preload(_WARM)
    forkserver.ensure_running()


async def prepare_program(
    runtime: Any, script: str | bytes, env: dict[str, str] | None = None, *, activate: bool = True
) -> list[str]:
    """Return the command of a harness program. Raises `RuntimeError` if it needs a package that the lock lacks."""
    text = script if isinstance(script, str) else script.decode()
    block = _BLOCK.search(text)
    declared = _DEPENDENCIES.search(block["lines"]) if block else None
    needed = [Requirement(each) for each in re.findall(r'"([^"]+)"', declared[1])] if declared else []
    if missing := list_missing(needed):
        raise RuntimeError(f"a harness needs {', '.join(missing)}, which the lock of verifiers lacks")
    path = Path(runtime.scripts_dir) / f"{hashlib.sha256(text.encode()).hexdigest()}.py"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [sys.executable, str(path)]


async def run_program(runtime: Any, argv: list[str], env: dict[str, str]) -> ProgramResult:
    """Run a harness program: one that was prepared as a fork, any other one as its own command."""
    if argv[0] != sys.executable or Path(argv[1]).parent != Path(runtime.scripts_dir):
        result: ProgramResult = await runtime.run(argv, env)
        return result
    outputs = [runtime.workdir / f".vf-{name}" for name in ("stdout", "stderr")]
    inherited = {name: value for name, value in os.environ.items() if "API_KEY" not in name.upper()}
    given = {
        "folder": str(runtime.workdir),
        "variables": {**inherited, **runtime.process_env(env)},
        "outputs": list(map(str, outputs)),
        "arguments": argv[1:],
    }
    process: Any = multiprocessing.get_context("forkserver").Process(target=exec, args=(_FORKED, given))
    process.start()
    try:
        await wait_for_end(process)
    finally:
        if process.exitcode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
        process.join()
    status = process.exitcode
    said = [path.read_text(errors="replace") if path.exists() else "" for path in outputs]
    process.close()
    return ProgramResult(status, *said)


async def wait_for_end(process: Any) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(process.sentinel)
