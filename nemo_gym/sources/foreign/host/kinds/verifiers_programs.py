"""Programs of verifiers, on this interpreter, each in a process that is forked from a warm one.

The framework installs the packages of a harness from an index at its first use, and starts an interpreter for each
turn and each tool server, which imports them for seconds. The lock of verifiers has the packages of its chat loop, so a
process that has imported them is kept, and every program is a fork of it: in a folder and a group of its own, with its
own variables, and with output to files.
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

_WARM: Final = [
    *("openai", "openai.resources", "openai.lib.streaming.chat", "tenacity", "certifi"),
    *("mcp", "mcp.client.streamable_http", "mcp.server.mcpserver", "uvicorn", "verifiers.v1"),
    *("httpx", "httpx2", "httpcore", "h11", "anyio._backends._asyncio"),
]
"""Modules of the chat loop and of tool servers. One that is absent is passed over."""
_BLOCK = re.compile(r"^# /// script\n(?P<lines>(?:#.*\n)*?)# ///$", re.MULTILINE)
_DEPENDENCIES = re.compile(r"^# dependencies = \[(.*?)\]", re.MULTILINE | re.DOTALL)
_FORKED: Final = """
import os, runpy, sys
os.setsid()
os.chdir(folder)
os.environ.clear()
os.environ.update(variables)
for number, path in ((1, output), (2, errors)):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, number)
    os.close(file)
if arguments[0] == "-m":
    sys.argv = arguments[1:]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
else:
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")
"""
"""The source of a forked process, which cannot import this module."""


def take_programs() -> None:
    """Let subprocess runtimes fork their programs, and start the process from which they are forked."""
    SubprocessRuntime.prepare_uv_script = prepare_program
    SubprocessRuntime.run_program = run_program
    SubprocessRuntime.run_background = run_background
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
    output, errors = (runtime.workdir / f".vf-{name}" for name in ("stdout", "stderr"))
    for path in (output, errors):
        path.unlink(missing_ok=True)  # of the turn before
    process = ForkedProgram(runtime, argv[1:], env, output, errors)
    try:
        status = await process.wait()
    finally:
        process.kill()
    return ProgramResult(status, *(path.read_text(errors="replace") for path in (output, errors)))


async def run_background(runtime: Any, argv: list[str], env: dict[str, str], log: str) -> None:
    """Start a tool server as a fork, any other program as its own command."""
    if argv[:2] == [sys.executable, "-m"]:
        output = runtime.workdir / log
        runtime._background.append(ForkedProgram(runtime, argv[1:], env, output, output))
    else:
        await _run_background(runtime, argv, env, log)


_run_background = SubprocessRuntime.run_background


class ForkedProgram:
    """A process as the runtime knows it, which ends its group."""

    def __init__(
        self, runtime: Any, arguments: list[str], env: dict[str, str], output: Path, errors: Path
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if "API_KEY" not in name.upper()}
        given = {
            "folder": str(runtime.workdir),
            "variables": {**inherited, **runtime.process_env(env)},
            "output": str(output),
            "errors": str(errors),
            "arguments": arguments,
        }
        for path in (output, errors):
            path.touch()
        forking: Any = multiprocessing.get_context("forkserver")
        self._process = forking.Process(target=exec, args=(_FORKED, given))
        self._process.start()
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        status: int | None = self._process.exitcode
        return status

    async def wait(self) -> int:
        """Wait for the end, and return the exit status."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        self._process.join()
        status: int = self._process.exitcode
        return status

    def kill(self) -> None:
        """Kill what is left of it and of its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._process.exitcode is None:  # it had no group yet
            self._process.kill()
            self._process.join()
