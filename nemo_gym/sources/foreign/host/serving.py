"""Answers requests by the module of a kind, one after the other."""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
import signal
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Protocol

from .channel import VERSION, HostChannel
from .faults import HostError, TimeIsUp, describe_error
from .forwarding import ModelPorts

MOST_TASKS = 1000


class Adapter(Protocol):
    """The module of a kind has a function `build(name, options)`, which returns one of these.

    The protocol is in the package's docstring: each method takes the fields of a request and returns those of a result.
    A kind of the loop `theirs` has `run` in the place of `open`, `step` and `close`.
    """

    def describe(self) -> dict[str, Any]: ...

    def list_tasks(self, cursor: int, limit: int, split: str | None, seed: int) -> dict[str, Any]: ...

    def open(self, task: dict[str, Any], seed: int) -> dict[str, Any]: ...

    def step(self, seat: int, text: str, calls: list[dict[str, Any]]) -> dict[str, Any]: ...

    def close(self) -> dict[str, Any]: ...


def load_kind(kind: str) -> ModuleType:
    """Return the module of a kind: one of ours by its name, any other one by the path of its file."""
    if not kind.endswith(".py"):
        return importlib.import_module(f"{__package__}.kinds.{kind}")
    spec = importlib.util.spec_from_file_location("gym_kind", kind)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Host:
    """One environment, and the attempt that is open."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._adapter: Any = None
        self._ports = ModelPorts()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request. Raises every error of the environment."""
        kind = request.get("type")
        fields = {name: value for name, value in request.items() if name not in ("v", "id", "type")}
        fields.pop("deadline_s", None)
        if kind == "hello":
            return self._greet(**fields)
        if kind == "ping":
            return {}
        if self._adapter is None:
            raise HostError("bad_request", "the first request is `hello`")
        if kind == "tasks":
            limit = min(int(fields.get("limit") or MOST_TASKS), MOST_TASKS)
            found: dict[str, Any] = self._adapter.list_tasks(
                int(fields.get("cursor") or 0), limit, fields.get("split"), int(fields.get("seed") or 0)
            )
            return found
        if kind not in ("describe", "open", "step", "close", "run") or not hasattr(self._adapter, kind):
            raise HostError("unsupported", f"this kind has no request {kind!r}")
        if kind in ("open", "run"):
            seed_everything(int(fields["seed"]))
        if kind == "run":
            fields["models"] = self._ports.place(fields["models"])
        result: dict[str, Any] = getattr(self._adapter, kind)(**fields)
        return result

    def _greet(self, versions: list[int], name: str, options: dict[str, Any]) -> dict[str, Any]:
        if VERSION not in versions:
            raise HostError("unsupported", f"the gym speaks versions {versions}, this host {VERSION}")
        self._adapter = load_kind(self._kind).build(name, options)
        return {
            "version": VERSION,
            "kind": Path(self._kind).stem,
            "python": sys.version.split()[0],
            "pid": os.getpid(),
        }


def seed_everything(seed: int) -> None:
    """Seed the random numbers of Python, and those of numpy if the environment has it."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def raise_timeout(number: int, frame: FrameType | None) -> None:
    raise TimeIsUp


def serve(channel: HostChannel, kind: str) -> None:
    """Answer requests until the gym ends. Raises `HostError` for a line that is no request."""
    signal.signal(signal.SIGALRM, raise_timeout)
    host = Host(kind)
    while (request := channel.receive()) is not None:
        answer = {**answer_in_time(host, request), "id": request["id"]}
        try:
            channel.send(answer)
        except HostError as error:  # the answer is too long, or has a NaN
            channel.send({"type": "error", "id": request["id"], **describe_error(error)})


def answer_in_time(host: Host, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a request: every error of the environment, exits included, is one."""
    try:
        signal.setitimer(signal.ITIMER_REAL, float(request.get("deadline_s") or 0))
        try:
            return {**host.answer(request), "type": "result"}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except (Exception, TimeIsUp, SystemExit) as error:  # noqa: BLE001 - the gym decides
        return {"type": "error", **describe_error(error)}
