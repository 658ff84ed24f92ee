"""A local engine: its command, its process, its health, and its restarts.

The engine must become healthy when the server starts; if its process ends before, the server fails to start. Once it
has been healthy, it is restarted when its process ends, up to a bound. Requests wait for a restart.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import shutil
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from nemo_gym.engines.engine import UpstreamEngine
from nemo_gym.failures import ConfigError, EngineError
from nemo_gym.processes.program import Program
from nemo_gym.transport import RetryBudget
from nemo_gym.transport.deadline import Timer

log = logging.getLogger(__name__)

_T = TypeVar("_T")
HOST = "127.0.0.1"
PROGRAM = "responses_api_models.local_vllm_model.engine_program:main"
_POLL_S = 0.2
_LONGEST_POLL_S = 5.0
_HEALTHY = RetryBudget(attempts=1, seconds=0)
_GRACE_S = 10.0
"""Seconds that an engine has to end before it is killed."""
_HEALTH_WITHIN_S = 5.0
_ENDING_S = 30.0
"""vLLM looks every 5 s whether its core is alive."""


class LocalEngine:
    """An engine process on this machine, on a free port."""

    def __init__(
        self,
        template: str,
        values: Mapping[str, str],
        *,
        variables: Mapping[str, str],
        max_restarts: int,
        ending_s: float = _ENDING_S,
    ) -> None:
        """`template` is a command with `{port}`, `{host}` and the names of `values`, which are shell words.

        `ending_s`: seconds that an engine which is not healthy has to end by itself. Raises `ConfigError` for a
        template with other names.
        """
        self._template = template
        self._values = values
        self._variables = variables
        self._restarts_left = max_restarts
        self._ending_s = ending_s
        self._program: Program | None = None
        self._healthy = asyncio.Event()
        self._failure: EngineError | None = None
        self._calls: set[Timer] = set()
        """The calls in flight to the engine."""
        self.url = self._new_url()

    def _new_url(self) -> str:
        # The engine binds the port itself, so another process can take it in between: the start fails then.
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self._command = self._words(probe.getsockname()[1])
            return f"http://{HOST}:{probe.getsockname()[1]}/v1"

    def _words(self, port: int) -> list[str]:
        try:
            return shlex.split(self._template.format(**self._values, host=HOST, port=port))
        except (LookupError, ValueError) as error:
            known = ", ".join(sorted({*self._values, "host", "port"}))
            raise ConfigError(
                f"the command {self._template!r} cannot be filled in: {error!r}",
                code="invalid_command",
                param="command",
                remedy=f"Use {known} in braces, and double every other brace.",
            ) from error

    async def start(self) -> None:
        """Start the engine and wait until it is healthy.

        Raises `ConfigError` if there is no such program, and `EngineError` if its process ends before.
        """
        if shutil.which(self._command[0]) is None:
            raise ConfigError(
                f"the engine's program `{self._command[0]}` is not installed",
                code="no_engine_program",
                param="command",
                remedy="Install vLLM (pip install vllm), or set `command` to the engine's command.",
            )
        self._spawn()
        if not await self._becomes_healthy():
            raise self._ended("before it was healthy")

    async def keep_alive(self) -> None:
        """Restart the engine whenever its process ends, until the bound is reached."""
        while True:
            assert self._program is not None
            await asyncio.to_thread(self._program.process.wait)
            self._healthy.clear()
            for call in self._calls:
                call.expire()
            ending = self._ended("while it served requests")
            if self._restarts_left == 0:
                log.error("%s; it is not restarted again", ending.failure.message)
                self._failure = ending
                self._healthy.set()  # waiting requests fail
                return
            self._restarts_left -= 1
            log.warning("%s; restarting it, %d restarts left", ending.failure.message, self._restarts_left)
            self.url = self._new_url()
            self._spawn()
            await self._becomes_healthy()

    async def call(self, make: Callable[[], Awaitable[_T]]) -> _T:
        """Make a call to the engine, and make it again if the engine ends meanwhile.

        Raises as the call does, and `EngineError` if the engine is not restarted again.
        """
        while True:
            await self.ready()
            program, call, failed = self._program, Timer(None), None
            self._calls.add(call)
            try:
                return await make()
            except asyncio.CancelledError:
                if not call.takes_back_cancellation():
                    raise
            except EngineError as error:
                failed = error
            finally:
                self._calls.discard(call)
                call.stop()
            if failed is not None and not (failed.failure.retryable and await self._ends(program)):
                raise failed

    async def ready(self) -> None:
        """Wait for a restart to finish. Raises `EngineError` if the engine is not restarted again."""
        await self._healthy.wait()
        if self._failure is not None:
            raise self._failure

    async def _ends(self, program: Program | None) -> bool:
        """Return whether the engine `program` ends, or has ended.

        An engine whose core has died answers with errors for some seconds before its process ends.
        """
        give_up_at = asyncio.get_running_loop().time() + self._ending_s
        while self._program is program and self._healthy.is_set() and self._failure is None:
            if await self._is_healthy() or asyncio.get_running_loop().time() > give_up_at:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def stop(self) -> None:
        """End the engine and all its processes."""
        if self._program is not None:
            await asyncio.to_thread(self._program.close)

    def _spawn(self) -> None:
        log.info("starting the engine: %s", shlex.join(self._command))
        self._program = Program(
            PROGRAM, json.dumps(self._command), str(_GRACE_S), variables=self._variables, grace_s=_GRACE_S + 2
        )

    @property
    def _exit_code(self) -> int | None:
        assert self._program is not None
        return self._program.process.poll()

    async def _becomes_healthy(self) -> bool:
        """Wait until the engine answers its health check; return False if its process ends first."""
        pause = _POLL_S
        while self._exit_code is None:
            if await self._is_healthy():
                self._healthy.set()
                return True
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_POLL_S)
        return False

    async def _is_healthy(self) -> bool:
        probe = UpstreamEngine(self.url, budget=_HEALTHY)
        try:
            async with asyncio.timeout(_HEALTH_WITHIN_S):
                return (await probe.call("GET", "/health", at_root=True)).reply.ok
        except (EngineError, TimeoutError):
            return False  # it does not listen yet, or no more

    def _ended(self, moment: str) -> EngineError:
        return EngineError(
            f"the engine `{self._command[0]}` ended with code {self._exit_code} {moment}",
            code="engine_ended",
            remedy="Its output is in the log of the model server.",
        )


def flags_of(arguments: Mapping[str, Any]) -> list[str]:
    """Return command-line flags: `--tensor-parallel-size 8`, `--trust-remote-code`, and JSON for mappings and lists."""
    words: list[str] = []
    for name, value in arguments.items():
        flag = name.replace("_", "-")
        if value is True:
            words.append(f"--{flag}")
        elif value is False:
            words.append(f"--no-{flag}")
        elif isinstance(value, dict | list):
            words += [f"--{flag}", json.dumps(value)]
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return words
