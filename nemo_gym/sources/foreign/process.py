"""One running host: its sandbox, the protocol of `host/`, and the failures of a host that does not keep it.

A host has no network, its interpreter and the packages are read-only, and its folders end with it. It ends with its
gym: its standard input closes, and the sandbox ends with its parent. Every failure is a `ForeignError`, of which a
reward that is no number is a `VerifierError`. After a failure of the protocol the host is killed with all that it
started, and cannot be used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import resource
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from nemo_gym.clock import monotonic
from nemo_gym.failures import ForeignError, GymError, VerifierError
from nemo_gym.isolation.confinement import MIB
from nemo_gym.isolation.execution import (
    ConfinedRunner,
    Ending,
    IsolationKind,
    SandboxedProcess,
    SandboxLimits,
    Workspace,
    remove_workspace,
)
from nemo_gym.isolation.python_installation import PythonInstallation
from nemo_gym.processes.process_tree import list_descendants
from nemo_gym.rows.verdict import is_reward
from nemo_gym.sources.foreign import host as host_package

__all__ = ["HostProcess"]

VERSION: Final = 1
HOST_FOLDER: Final = Path(host_package.__file__).parent
SEEN_AS: Final = Path("/models")
"""The folder of the models' sockets in bubblewrap."""
OWN_TMP: Final = "GYM_OWN_TMP"
"""The variable of a host that has a /tmp of its own, which it may empty."""
BEAT_S: Final = 5.0
MISSED_BEATS: Final = 6
"""Signs of life that a host may miss. A busy machine delays a few."""
MOST_LINE_BYTES: Final = 16 << 20
_GRACE_S = 5.0
"""Seconds after the deadline of a request, in which the host answers that it is over."""
_DAY_S = 86_400.0
_SHOWN_CHARS = 2000
_ENVIRONMENT: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "NO_COLOR": "1",
    "NO_PROXY": "127.0.0.1,localhost",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True, slots=True)
class HostProgram:
    """The hosts of one environment."""

    kind: str
    """The name of a kind, or the path of its module."""
    name: str
    python: Path
    """The interpreter with the environment's packages."""
    options: Mapping[str, Any] = field(default_factory=dict)
    readable: tuple[Path, ...] = ()
    """Folders of the environment beside those of its interpreter."""
    address: str | None = None
    """The URL of the environment's server, the only thing outside of the sandbox that a host reaches."""
    variables: Mapping[str, str] = field(default_factory=dict)
    memory_mib: int = 2048
    start_timeout_s: float = 120.0
    beat_s: float = BEAT_S
    calls_models: bool = False
    """True if it plays whole attempts, and calls models at sockets in a folder of its own."""

    def build_runner(self) -> ConfinedRunner:
        """Return the runner of these hosts. Raises `ConfigError` if their interpreter does not run."""
        python = PythonInstallation.from_executable(str(self.python))
        module = (Path(self.kind).parent,) if self.kind.endswith(".py") else ()
        return ConfinedRunner(
            probe=python.command("pass"),
            readable=[*python.folders, HOST_FOLDER, *module, *self.readable],
            python=python,
            own_network=True,
        )

    def build_command(self) -> list[str]:
        python = PythonInstallation.from_executable(str(self.python))
        beat = str(self.beat_s)
        return [python.executable, "-P", *python.flags, str(HOST_FOLDER / "__main__.py"), self.kind, beat]

    @property
    def limits(self) -> SandboxLimits:
        return SandboxLimits(
            wall_s=_DAY_S,
            memory_bytes=self.memory_mib * MIB,
            limits_address_space=False,
            file_bytes=256 * MIB,
            folder_bytes=256 * MIB,
            output_bytes=MOST_LINE_BYTES + 1,
            processes=256,
            open_files=1024,
        )


class HostProcess:
    """A running host. `start` makes it, and `close` ends it."""

    def __init__(
        self,
        program: HostProgram,
        process: SandboxedProcess,
        owned: AsyncExitStack,
        folder: Workspace | None = None,
    ) -> None:
        self.folder = folder
        """The folder of the models' sockets."""
        self._program = program
        self._process = process
        self._owned = owned
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._failure: GymError | None = None
        self._heard_at = monotonic()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._watch())]
        self.attempts = 0
        """Attempts that it has begun."""

    @classmethod
    async def start(
        cls, program: HostProgram, runner: ConfinedRunner, command: list[str] | None = None
    ) -> HostProcess:
        """Start a host and load its environment. Raises `ForeignError`."""
        async with AsyncExitStack() as stack:
            folder = await _make_folder(runner, stack) if program.calls_models else None
            own = {OWN_TMP: "1"} if await runner.isolation() is IsolationKind.BUBBLEWRAP else {}
            opening = runner.open(
                command or program.build_command(),
                limits=program.limits,
                workspace=folder,
                environment={**_ENVIRONMENT, **program.variables, **own},
            )
            process = await stack.enter_async_context(opening)
            host = cls(program, process, stack.pop_all(), folder)
        try:
            given = {"versions": [VERSION], "name": program.name, "options": dict(program.options)}
            await host.ask("hello", given, deadline_s=program.start_timeout_s)
        except BaseException:
            await host.close()
            raise
        return host

    @property
    def is_usable(self) -> bool:
        return self._failure is None

    @property
    def has_own_network(self) -> bool:
        """True if its models have to be sockets in its folder."""
        return self._process.isolation is not IsolationKind.UNSANDBOXED

    @property
    def pid(self) -> int:
        """The pid of the process that confines it."""
        return self._process.pid

    def count_processes(self) -> int:
        """Return the number of processes in its sandbox, with those that confine it."""
        return 1 + sum(1 for _ in list_descendants(self._process.pid))

    def count_memory(self) -> int:
        """Return the resident bytes of these processes."""
        pages = 0
        for pid in list_descendants(self._process.pid):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    async def ask(self, request: str, fields: Mapping[str, Any], *, deadline_s: float) -> dict[str, Any]:
        """Send a request and return its result.

        Raises `ForeignError` for an error of the environment, a deadline that passed, and a host that died, was silent
        or broke the protocol; `VerifierError` for a reward that is no finite number.
        """
        if self._failure is not None:
            raise self._failure
        number = next(self._numbers)
        answered = self._pending[number] = asyncio.get_running_loop().create_future()
        message = {**fields, "v": VERSION, "id": number, "type": request, "deadline_s": deadline_s}
        try:
            async with asyncio.timeout(deadline_s + _GRACE_S):
                await self._process.send(orjson.dumps(message) + b"\n")
                answer: dict[str, Any] = await asyncio.shield(answered)
        except TimeoutError:
            self._fail("timeout", f"`{request}` had no answer within {deadline_s:g} s", Ending.TIMED_OUT)
            assert self._failure is not None
            raise self._failure from None
        except asyncio.CancelledError:
            self._fail("cancelled", f"`{request}` was cancelled", Ending.STOPPED)
            raise
        finally:
            self._pending.pop(number, None)
            if answered.done() and not answered.cancelled():
                answered.exception()  # it has been seen
        if answer["type"] == "error":
            raise self._build_error(answer)
        if request in ("step", "run"):
            self._check_rewards(answer)
        return answer

    async def close(self) -> None:
        """Kill the host with all that it started. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fail("host_closed", "the host was closed", Ending.STOPPED)
        await self._owned.aclose()

    async def _read(self) -> None:
        while self._failure is None:
            line = await self._process.read_line()
            self._heard_at = monotonic()
            if line is None:
                self._fail_at_end()
            else:
                self._take(line)

    async def _watch(self) -> None:
        """End the host when it has missed too many signs of life."""
        most_s = self._program.beat_s * MISSED_BEATS
        while self._failure is None:
            silence_s = monotonic() - self._heard_at
            if silence_s >= most_s:
                told = f"it gave no sign of life for {most_s:g} s"
                self._fail("host_silent", told, Ending.TIMED_OUT)
            await asyncio.sleep(max(most_s - silence_s, 0.01))

    def _take(self, line: bytes) -> None:
        message = self._parse(line)
        if message is None or message.get("type") == "event":
            return
        answered = self._pending.pop(message.get("id", 0), None)
        if answered is None or answered.done():
            told = f"it answered a request that is not open ({message.get('id')})"
            self._fail("host_protocol", told, Ending.STOPPED)
        else:
            answered.set_result(message)

    def _parse(self, line: bytes) -> dict[str, Any] | None:
        """Return a message, or None after a failure."""
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            message = _parse_numbers(line)
            if message is not None:
                self._fail("bad_reward", "a number is NaN or infinite", Ending.STOPPED, of=VerifierError)
                return None
        known = isinstance(message, dict) and message.get("type") in ("result", "error", "event")
        if not known or message.get("v") != VERSION:
            shown = line[:200].decode(errors="replace").strip()
            self._fail("host_protocol", f"a line is no message of the protocol: {shown!r}", Ending.STOPPED)
            return None
        assert isinstance(message, dict)
        return message

    def _fail_at_end(self) -> None:
        ending = self._process.ending
        if ending is Ending.OUTPUT_EXCEEDED:
            most = f"{MOST_LINE_BYTES >> 20} MiB"
            self._fail("host_flooded", f"it wrote a line or a log of more than {most}", ending)
        elif ending is Ending.MEMORY_EXCEEDED:
            told = f"it used more than {self._program.memory_mib} MiB of memory"
            self._fail("out_of_resources", told, ending)
        else:
            status = self._process.exit_status
            self._fail("host_died", f"it ended ({ending}, status {status})", Ending.STOPPED)

    def _fail(self, code: str, told: str, ending: Ending, *, of: type[GymError] = ForeignError) -> None:
        """Note the failure, kill the host, and fail what waits for an answer."""
        if self._failure is not None:
            return
        said = self._process.stderr.decode(errors="replace").strip()[-_SHOWN_CHARS:]
        described = f"{told}. It printed: {said}" if said else told
        where = f"the host of {self._program.kind}:{self._program.name}"
        self._failure = of(f"{where}: {described}", code=code, retryable=code != "bad_reward", peer=where)
        self._process.kill(ending)
        for answered in self._pending.values():
            if not answered.done():
                answered.set_exception(self._failure)

    def _build_error(self, answer: Mapping[str, Any]) -> GymError:
        code, where = str(answer.get("code")), answer.get("where")
        error = VerifierError if code in ("bad_reward", "verifier_error") else ForeignError
        return error(
            str(answer.get("message"))[:_SHOWN_CHARS],
            code=code,
            retryable=bool(answer.get("retryable")),
            peer=f"{self._program.kind}:{self._program.name}",
            place=str(where) if where else None,
        )

    def _check_rewards(self, answer: Mapping[str, Any]) -> None:
        """Raise `VerifierError` for a reward that is neither a finite number nor null."""
        found = answer.get("rewards") or {}
        rewards = {
            "reward": answer.get("reward"),
            **(found if isinstance(found, dict) else {"rewards": found}),
        }
        for name, value in rewards.items():
            if value is not None and not is_reward(value):
                raise VerifierError(
                    f"the reward {name} of {self._program.kind}:{self._program.name} is {value!r}, no finite number",
                    code="bad_reward",
                    peer=f"{self._program.kind}:{self._program.name}",
                )


async def _make_folder(runner: ConfinedRunner, stack: AsyncExitStack) -> Workspace:
    is_mounted = await runner.isolation() is IsolationKind.BUBBLEWRAP
    folder = await runner.make_workspace(SEEN_AS if is_mounted else None)
    stack.push_async_callback(remove_workspace, folder)
    if folder.user is not None:  # the host must not replace a socket whose owner is about to change
        os.chown(folder.folder, os.geteuid(), os.getegid())
        folder.folder.chmod(0o711)
    return folder


def _parse_numbers(line: bytes) -> Any:
    """Return what the line says if only its numbers, NaN among them, keep it from being JSON; else None."""
    with contextlib.suppress(ValueError):
        return json.loads(line)
    return None
