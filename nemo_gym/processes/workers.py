"""A pool of preloaded worker processes for CPU-bound or non-terminating synchronous code.

Verifiers call sympy and regular expressions from task rows. On the event loop such code blocks every session of the
server, and a thread cannot be stopped. So it runs in worker processes:

    pool = default_pool()
    reward = await pool.run(score, answer, expected, timeout_s=5)

The function must be importable by a worker; arguments and results are pickled. Each job has its own deadline, which
starts when a worker has imported the function: queueing, importing and waiting for a core do not count. At the
deadline, or when the caller is cancelled, the worker's process group is killed and the worker replaced. A dying worker
fails one job only.

A pool bounds time and memory. It is no sandbox: run model-written code with `nemo_gym.sandbox`.

No library fits: the pools of pebble and the standard library expose neither the process that runs a job nor the start
of the job's own time, and one crash breaks the standard library's whole pool.

A job fails with a `VerifierError`:
    verifier_timeout      the deadline passed while the job computed, or the import took too long
    verifier_blocked      the deadline passed while the job slept or waited, but not for a core
    verifier_starved      the machine is too busy to give the job its time (retryable)
    verifier_out_of_memory  the worker reached its memory limit
    verifier_crashed      the worker died: a signal, `os._exit`
    verifier_raised       the function raised, or its result cannot be pickled
    verifier_overloaded   the queue is full (HTTP 503, retryable)
    verifier_unavailable  no worker could be started (retryable)
    verifier_closed       the pool was closed during the job (retryable)
A `GymError` of the function is raised unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar, TypeVarTuple, cast

from nemo_gym.failures import VerifierError, build_error
from nemo_gym.processes import messages, worker_main
from nemo_gym.processes._worker import IMPORT_TIMEOUT_S, Worker, unavailable
from nemo_gym.processes.cpus import usable_cpus
from nemo_gym.processes.fork_server import ForkServer

__all__ = ["WorkerPool", "available_cores", "default_pool"]

_KILLING_CODES = frozenset({"verifier_timeout", "verifier_blocked", "verifier_starved", "cancelled"})

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

MAX_QUEUED = 4096
MEMORY_LIMIT_BYTES = 4 << 30


@dataclass(slots=True)
class PoolStats:
    """The load of a pool. A `peak_queued` well above zero calls for more cores or fewer jobs."""

    size: int
    """The maximum number of workers."""
    workers: int = 0
    """Current worker processes."""
    busy: int = 0
    queued: int = 0
    completed: int = 0
    """Jobs that returned or raised."""
    killed: int = 0
    """Workers killed at a deadline or after a cancelled call."""
    crashed: int = 0
    peak_busy: int = 0
    peak_queued: int = 0


class RemoteTraceback(Exception):
    """The traceback inside the worker: the cause of a `verifier_raised` failure, for logs."""


class WorkerPool:
    """At most `size` worker processes, started on demand and kept.

    `memory_limit_bytes` bounds the private writable memory of each worker (RLIMIT_DATA). A pool belongs to one event
    loop while that loop runs; its workers survive the loop and serve the next one.
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
        max_queued: int = MAX_QUEUED,
    ) -> None:
        if size is not None and size < 1:
            raise ValueError(f"A worker pool needs at least one worker, not {size}.")
        self.size = size or available_cores()
        self._memory_limit_bytes = memory_limit_bytes
        self._max_queued = max_queued
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(self.size)
        self._idle: deque[Worker] = deque()
        self._workers: set[Worker] = set()
        self._imports: dict[str, None] = {}
        # One hash seed, so that code that iterates over sets gives the same verdict in every worker.
        self._server = ForkServer(worker_main.__name__, variables={"PYTHONHASHSEED": "0"})
        self._owner_pid = os.getpid()
        self._stats = PoolStats(self.size)
        self.is_closed = False
        # Results of a script's own classes are pickled under the script's name in a worker.
        sys.modules.setdefault(worker_main.MAIN_ALIAS, sys.modules["__main__"])

    @property
    def stats(self) -> PoolStats:
        return replace(self._stats, workers=len(self._workers))

    async def start(self, imports: Sequence[str] = ()) -> None:
        """Start every worker and import the modules `imports` in each."""
        jobs = (self.run(os.getpid, timeout_s=IMPORT_TIMEOUT_S, imports=imports) for _ in range(self.size))
        await asyncio.gather(*jobs)

    async def run(
        self, function: Callable[[*Ts], R], *args: *Ts, timeout_s: float, imports: Sequence[str] = ()
    ) -> R:
        """Run `function(*args)` in a worker for at most `timeout_s` seconds. Failures: see the module.

        `imports` names modules that the function imports lazily; their import does not count towards `timeout_s`.
        """
        return await self.submit(function, args, {}, timeout_s=timeout_s, imports=imports)

    async def submit(
        self,
        function: Callable[..., R],
        args: Sequence[object],
        kwargs: Mapping[str, object],
        *,
        timeout_s: float,
        imports: Sequence[str] = (),
        name: str | None = None,
    ) -> R:
        """Like `run`, with keyword arguments. `name` stands for the function's own in messages."""
        name = name or function.__qualname__
        job = _encode_job(function, args, kwargs, imports)
        self._imports.update(dict.fromkeys(imports))
        self.attach(asyncio.get_running_loop())
        async with self._slot():
            kind, body = await self._call(self._take_worker(), job, timeout_s, name)
        self._stats.completed += 1
        return cast(R, _result(kind, body, name))

    async def close(self) -> None:
        """End every worker. Running and queued jobs fail with `verifier_closed`. Idempotent."""
        self.is_closed = True
        for worker in self._workers:
            worker.kill()
        while self._idle:
            self._discard(self._idle.pop())
        await asyncio.to_thread(self._server.close)

    def is_free_for(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """Return whether `loop` may use this pool: it is open, of this process, and no other running loop owns it."""
        is_ours = not self.is_closed and self._owner_pid == os.getpid()
        return is_ours and (self._loop is None or self._loop is loop or not self._loop.is_running())

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make `loop` the owner of the pool. Raises RuntimeError if another running loop owns it."""
        if self._loop is loop:
            return
        if self._loop is not None and self._loop.is_running():
            raise RuntimeError(
                "This worker pool is in use by another event loop; create a pool for this one."
            )
        self._loop, self._slots = loop, asyncio.Semaphore(self.size)

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Wait in FIFO order for the right to use one worker."""
        if self._stats.queued >= self._max_queued:
            raise VerifierError(
                f"All {self.size} verifier workers are busy and {self._stats.queued} jobs are queued.",
                code="verifier_overloaded",
                retryable=True,
                status=503,
            )
        slots = self._slots
        must_wait = slots.locked()
        self._stats.queued += must_wait
        self._stats.peak_queued = max(self._stats.peak_queued, self._stats.queued)
        try:
            await slots.acquire()
        finally:
            self._stats.queued -= must_wait
        self._stats.busy += 1
        self._stats.peak_busy = max(self._stats.peak_busy, self._stats.busy)
        try:
            yield
        finally:
            self._stats.busy -= 1
            slots.release()

    def _take_worker(self) -> Worker:
        """The idle worker used most recently, or a new one."""
        if self.is_closed:
            raise _build_closed_error()
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive():
                return worker
            self._discard(worker)
        return self._start_worker()

    def _start_worker(self) -> Worker:
        try:
            worker = Worker(self._server, (list(sys.path), self._memory_limit_bytes, tuple(self._imports)))
        except OSError as error:
            raise unavailable(error) from error
        self._workers.add(worker)
        return worker

    async def _call(self, worker: Worker, job: bytes, timeout_s: float, name: str) -> tuple[str, Any]:
        try:
            answer = await worker.call(job, name, timeout_s)
        except BaseException as error:  # a cancellation too: its answer has no receiver
            self._discard(worker)
            code = error.failure.code if isinstance(error, VerifierError) else "cancelled"
            if self.is_closed and code == "verifier_crashed":
                raise _build_closed_error() from error
            self._stats.crashed += code in ("verifier_crashed", "verifier_out_of_memory")
            self._stats.killed += code in _KILLING_CODES
            if not self.is_closed:
                # The successor preloads the imports of all jobs so far in the background.
                self._idle.appendleft(self._start_worker())
            raise
        self._idle.append(worker)
        return answer

    def _discard(self, worker: Worker) -> None:
        worker.end()
        self._workers.discard(worker)


@cache
def available_cores() -> int:
    """The number of cores that this process may use. A part of a core counts as one."""
    return math.ceil(usable_cpus())


def list_shared_stats() -> list[PoolStats]:
    """The load of the shared pools; empty before the first job."""
    return [pool.stats for pool in _default_pools if not pool.is_closed]


def request_memory(limit_bytes: int) -> None:
    """Set the memory limit of workers in shared pools that start later. The largest request of a process counts."""
    _requested_memory.append(limit_bytes)


_requested_memory: list[int] = []
_default_pools: list[WorkerPool] = []
_default_pools_lock = threading.Lock()


def default_pool() -> WorkerPool:
    """The shared pool of this process, with one worker per core.

    A second event loop in another thread gets a second pool, and a forked process its own.
    """
    loop = _find_running_loop()
    with _default_pools_lock:
        pool = next((pool for pool in _default_pools if pool.is_free_for(loop)), None)
        if pool is None:
            limit_bytes = max(_requested_memory, default=MEMORY_LIMIT_BYTES)
            pool = WorkerPool(memory_limit_bytes=limit_bytes)
            _default_pools.append(pool)
        if loop is not None:
            pool.attach(loop)
        return pool


def _find_running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _encode_job(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    imports: Sequence[str],
) -> bytes:
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module is None or not qualname or "<" in qualname:
        raise TypeError(f"A worker cannot import {function!r}; it must be a module-level function.")
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    try:
        call = pickle.dumps((tuple(args), dict(kwargs)), protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise VerifierError(
            f"The arguments of {qualname} cannot be sent to a worker: {error}.",
            code="verifier_raised",
            remedy="Pass plain data.",
        ) from error
    return messages.frame((module, qualname, file, tuple(imports), call))


def _result(kind: str, body: Any, name: str) -> object:
    if kind == worker_main.RETURNED:
        return body
    if kind == worker_main.FAILED:
        raise build_error(body)
    last_line, whole_traceback, place = body
    error = VerifierError(f"{name} raised {last_line}", code="verifier_raised", place=place)
    raise error from RemoteTraceback(whole_traceback)


def _build_closed_error() -> VerifierError:
    return VerifierError("The verifier's worker pool was closed.", code="verifier_closed", retryable=True)
