"""The main loop of a worker of `nemo_gym.processes.workers`.

Jobs and answers are messages over one socket. A worker is forked with only the standard library loaded, so it costs a
bare interpreter plus the imports of its functions.

    pool → worker   job     (module, qualname, file, imports, pickled call)     one at a time
    worker → pool   STARTED pid                      the function is imported; its deadline starts now
                    RETURNED value | RAISED (last line, traceback, place) | FAILED `nemo_gym.failures.Failure`

A worker ends when the pool closes the socket.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import pickle
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from nemo_gym.failures import GymError
from nemo_gym.processes import messages
from nemo_gym.processes.author_code import describe_error, find_error_place

CHANNEL_FD = 3
"""The descriptor of the socket to the pool."""

STARTED, RETURNED, RAISED, FAILED = "started", "returned", "raised", "failed"

OUT_OF_MEMORY_STATUS = 97
"""The exit status of a worker that ran out of memory; its heap is no longer reliable."""

MAIN_ALIAS = "__ng_main__"
"""The name of a script's module in a worker, so that its main guard is false.

It is not the `__mp_main__` of multiprocessing, which overwrites that name when it is imported: then types in the
script's own annotations could not be resolved.
"""

_TRACEBACK_LIMIT = 20_000


def main(sys_path: Sequence[str], memory_limit_bytes: int | None, imports: Sequence[str]) -> None:
    """Serve jobs until the pool closes its end of the socket."""
    sys.path[:] = sys_path
    if memory_limit_bytes is not None:
        # Private writable memory: an address space may hold large libraries and reservations that cost nothing.
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit_bytes, memory_limit_bytes))
    # A failed preload is ignored: the job that needs the module imports it again and reports the error.
    with contextlib.suppress(Exception):
        _import_all(imports)
    with socket.socket(fileno=CHANNEL_FD) as channel, contextlib.suppress(EOFError):
        while True:
            _serve(channel, *messages.receive(channel))


def _serve(
    channel: socket.socket, module: str, qualname: str, file: str | None, imports: Sequence[str], call: bytes
) -> None:
    try:
        _import_all(imports)
        function = _load_function(module, qualname, file)
        args, kwargs = pickle.loads(call)
        messages.send(channel, (STARTED, os.getpid()))
        answer = messages.frame((RETURNED, function(*args, **kwargs)))
    except MemoryError:
        os._exit(OUT_OF_MEMORY_STATUS)
    except BaseException as error:  # noqa: BLE001 - the boundary: every exception of the function goes to the pool
        answer = messages.frame(_describe_raised(error))
    # An alarm left by the function would interrupt the next job.
    signal.setitimer(signal.ITIMER_REAL, 0)
    channel.sendall(answer)


def _describe_raised(error: BaseException) -> tuple[str, object]:
    if isinstance(error, GymError):
        return FAILED, error.failure
    is_refused = type(error).__name__ == "ValidationError"  # its last line is that of a link
    last_line = describe_error(error) if is_refused else traceback.format_exception_only(error)[-1].strip()
    whole = "".join(traceback.format_exception(error))[-_TRACEBACK_LIMIT:]
    return RAISED, (last_line, whole, find_error_place(error))


def _import_all(names: Sequence[str]) -> None:
    for name in names:
        importlib.import_module(name)


def _load_function(module_name: str, qualname: str, file: str | None) -> Callable[..., object]:
    found: Any = load_module(module_name, file)
    for name in qualname.split("."):
        found = getattr(found, name)
    # A decorated function's name refers to its asynchronous wrapper (`nemo_gym.verify.off_loop`).
    function: Callable[..., object] = getattr(found, "off_loop_function", found)
    return function


def load_module(name: str, file: str | None) -> ModuleType:
    """Import the module `name`, or load `file` if it cannot be imported by name, such as `__main__`."""
    if name == "__main__" and file is not None:
        module = sys.modules.get(MAIN_ALIAS) or load_file(MAIN_ALIAS, file)
        # Arguments of classes pickled as `__main__.Name` are looked up there.
        sys.modules["__main__"] = module
        return module
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        is_module_itself = error.name is not None and (
            name == error.name or name.startswith(f"{error.name}.")
        )
        if file is None or not is_module_itself:
            raise
        return load_file(name, file)


def load_file(name: str, file: str) -> ModuleType:
    """Execute `file` as the module `name`, which replaces an earlier one of that name."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file", name=name, path=file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
