"""A mock engine in a process of its own, so that it doesn't share the CPU time of what is tested or measured."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from types import TracebackType
from typing import IO, Any, Self

import orjson

from nemo_gym.failures import TransportError
from nemo_gym.testing.engine.faults import read_faults
from nemo_gym.testing.engine.options import EngineOptions, policy_of
from nemo_gym.transport import Call, Reply, call_once_blocking

START_WITHIN_S = 30.0
STOP_WITHIN_S = 5.0
ANSWER_WITHIN_S = 30.0


class EngineProcess:
    """`with EngineProcess(options) as engine: ... engine.base_url`.

    The process ends with the `with` block, and also when this process dies without leaving it.
    """

    def __init__(self, options: EngineOptions | None = None) -> None:
        self.options = options or EngineOptions()
        self.base_url = ""
        self.root_url = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Raises RuntimeError before the start."""
        if self._process is None:
            raise RuntimeError("The engine's process is not running.")
        return self._process.pid

    def start(self) -> None:
        """Returns when the engine can be reached.

        Raises ConfigError for options that can't be used, TransportError when the engine isn't there within half
        a minute.
        """
        policy_of(self.options)
        read_faults(self.options.faults)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nemo_gym.testing.engine.serving"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(_json_of(self.options) + b"\n")
        self._process.stdin.flush()
        line = _first_line(self._process.stdout, START_WITHIN_S)
        if not line:
            self.stop()
            raise TransportError("The mock engine's process did not start.", code="engine_not_started")
        ready = orjson.loads(line)
        self.base_url, self.root_url = ready["base_url"], ready["root_url"]

    def stop(self) -> None:
        """Ends the process and waits for its end."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def stats(self) -> dict[str, Any]:
        """What the engine saw: the answer of `GET /stats`."""
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


def _json_of(options: EngineOptions) -> bytes:
    return orjson.dumps(options.model_dump(mode="json", exclude_none=True))


def _first_line(stream: IO[bytes], within_s: float) -> bytes:
    """The first line of a stream; nothing when it ends, or when the time is over, before there is one."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
    try:
        return lines.get(timeout=within_s)
    except queue.Empty:
        return b""
