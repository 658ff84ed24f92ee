"""A mock engine in a process of its own, which keeps its CPU time out of tests and measurements."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from nemo_gym.failures import TransportError
from nemo_gym.mock_engine._faults import FaultRule
from nemo_gym.mock_engine.fault_plan import read_plan
from nemo_gym.mock_engine.options import EngineOptions, build_policy
from nemo_gym.processes import messages
from nemo_gym.processes.program import Program
from nemo_gym.transport import Call, Reply, call_once_blocking

START_WITHIN_S = 30.0
STOP_WITHIN_S = 5.0
ANSWER_WITHIN_S = 30.0


class EngineProcess:
    """`with EngineProcess(options) as engine: ... engine.base_url`.

    The process ends with the `with` block, and also when the parent process dies inside the block.
    """

    def __init__(self, options: EngineOptions | None = None) -> None:
        self.options = options or EngineOptions()
        self.base_url = ""
        self.root_url = ""
        self._program: Program | None = None

    @property
    def pid(self) -> int:
        """Raises RuntimeError before the start."""
        if self._program is None:
            raise RuntimeError("The engine's process is not running.")
        return self._program.process.pid

    def start(self) -> None:
        """Start the process and return when the engine is reachable.

        Raises ConfigError for unusable options, TransportError when the engine does not start within 30 seconds.
        """
        build_policy(self.options)
        read_plan(self.options.faults, FaultRule)
        program = self._program = Program("nemo_gym.mock_engine.serving:main", grace_s=STOP_WITHIN_S)
        program.channel.settimeout(START_WITHIN_S)
        try:
            program.send(self.options.model_dump(mode="json", exclude_none=True))
            self.base_url, self.root_url = messages.receive(program.channel)
        except (OSError, EOFError) as error:
            self.stop()
            raise TransportError(
                "The mock engine's process did not start.", code="engine_not_started"
            ) from error

    def stop(self) -> None:
        """End the process and wait for its exit."""
        program, self._program = self._program, None
        if program is not None:
            program.close()

    def stats(self) -> dict[str, Any]:
        """Return the engine's counters, as `GET /stats` does."""
        counted: dict[str, Any] = self._call(Call("GET", "/stats")).json()
        return counted

    def reset_stats(self) -> None:
        self._call(Call("POST", "/stats/reset"))

    def _call(self, call: Call) -> Reply:
        return call_once_blocking(self.root_url, call, timeout_s=ANSWER_WITHIN_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
