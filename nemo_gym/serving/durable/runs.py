"""The durable runs that a server process knows: told over a control route, and remembered over its restarts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pydantic import BaseModel, Field, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym import clock
from nemo_gym.failures import EngineError, InputError
from nemo_gym.serving.durable.names import AttemptName, parse_name

if TYPE_CHECKING:
    from nemo_gym.serving.app import GymApp  # the collector, which reads records, needs no framework


class Durability(StrEnum):
    """The ends of processes and machines that a record survives."""

    PROCESS = "process"
    """The end of any process: lines are handed to the operating system."""
    NODE = "node"
    """The end of a machine: lines are on the disk, which must be a shared one, before an answer goes out."""


@dataclass(frozen=True, slots=True)
class DurableRun:
    """A run whose attempts are recorded."""

    run: str
    folder: Path
    durability: Durability


class DurableAttempt(NamedTuple):
    """An attempt that is recorded."""

    name: AttemptName
    run: DurableRun
    folder: str
    """The folder of its record."""


def find_attempt(session: str, runs: Mapping[str, DurableRun]) -> DurableAttempt | None:
    """Return the attempt that a session is; None for one of no known run."""
    name = parse_name(session)
    run = runs.get(name.run) if name is not None else None
    return None if name is None or run is None else DurableAttempt(name, run, f"{run.folder}/{name.folder}")


class RunLayer(Protocol):
    """A layer of the app (`GymApp.layers`) that records a part of the attempts of some runs."""

    runs: dict[str, DurableRun]

    async def __call__(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None: ...

    def forget(self, run: str) -> None:
        """Forget a run that has ended."""


class RunTerms(BaseModel, extra="forbid"):
    """The body of the control route."""

    run: str = Field(pattern=r"^d[0-9a-f]{12}$")
    folder: Path | None = Field(None, description="The folder of its records; None when the run has ended.")
    durability: Durability = Durability.PROCESS


class DurableRuns:
    """The durable runs of one process, and the layer that records their attempts, which the app gets with the first."""

    def __init__(self, app: GymApp, folder: Path, layer: RunLayer) -> None:
        """`folder` remembers the runs, so that a process that begins later knows them."""
        self._app = app
        self._folder = folder
        self._layer = layer
        for path in sorted(folder.glob("*.json")):
            self._remember(path)

    def tell(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Begin or end a run. Return a name that was written into its folder, so that the caller can look for it.

        Raises `InputError`, and `EngineError` if the folder cannot be written.
        """
        try:
            terms = RunTerms.model_validate(body)
        except ValidationError as error:
            raise InputError(f"no durable run: {error}", code="invalid_run") from error
        path = self._folder / f"{terms.run}.json"
        if terms.folder is None:
            path.unlink(missing_ok=True)
            self._layer.forget(terms.run)
            return {"written": None}
        proof = f".{clock.hex_id()}"
        try:
            (terms.folder / proof).touch(mode=0o600)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(terms.model_dump_json(), encoding="utf-8")
        except OSError as error:
            raise EngineError(
                f"the records of attempts cannot be written to {terms.folder}: {error.strerror}",
                code="record_unwritable",
                remedy="Write the rows to a folder that the machines of the gym share.",
                status=500,
            ) from error
        self._add(terms.run, terms.folder, terms.durability)
        return {"written": proof}

    def _add(self, run: str, folder: Path, durability: Durability) -> None:
        self._layer.runs[run] = DurableRun(run, folder, durability)
        if self._layer not in self._app.layers:
            self._app.layers.append(self._layer)

    def _remember(self, path: Path) -> None:
        """Add a run of an earlier process, unless its folder is gone."""
        with contextlib.suppress(OSError, ValidationError):
            terms = RunTerms.model_validate_json(path.read_bytes())
            if terms.folder is not None and terms.folder.is_dir():
                self._add(terms.run, terms.folder, terms.durability)
            else:
                path.unlink(missing_ok=True)
