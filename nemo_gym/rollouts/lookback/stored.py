"""The files of a run that is over, read by rollout: any row at hand, none of them in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import PlacedRow, read_places
from nemo_gym.rollouts.plan.compression import holds_text, open_content
from nemo_gym.rollouts.plan.dataset import opened_plain
from nemo_gym.rollouts.plan.identity import RolloutId
from nemo_gym.rollouts.run.answer import NG_FAILURE_CLASS_KEY

_DIGEST_BYTES = 1 << 20


class IndexedRows:
    """A JSONL file of rows with identities. Of several with one identity the last counts."""

    def __init__(self, path: Path, *, unique: bool = False) -> None:
        """Raises `ConfigError` for a line that is no row and, with `unique`, for a second row of a rollout."""
        self.path = path
        self._places: dict[RolloutId, PlacedRow] = {}
        self._opened = ExitStack()
        self._file: BinaryIO | None = None
        if not holds_text(path):
            return
        self._file = self._opened.enter_context(opened_plain(path))
        for number, row in enumerate(read_places(self._file, path), start=1):
            if unique and row.identity in self._places:
                raise ConfigError(
                    f"{path}:{number}: there is an earlier row of {row.identity}", code="duplicate_row"
                )
            self._places[row.identity] = row

    def __contains__(self, identity: object) -> bool:
        return identity in self._places

    def __iter__(self) -> Iterator[RolloutId]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def line(self, identity: RolloutId) -> bytes:
        """The row as it stands in the file, without its line break."""
        assert self._file is not None
        place = self._places[identity]
        return os.pread(self._file.fileno(), place.length, place.start)

    def row(self, identity: RolloutId) -> dict[str, Any]:
        return cast("dict[str, Any]", orjson.loads(self.line(identity)))

    def close(self) -> None:
        self._opened.close()


class StoredRun:
    """The files of a run that is over: scored rows, failures, and the task rows that its agents were sent."""

    def __init__(self, rows: Path) -> None:
        """`rows` is the run's file of scored rows. Raises `ConfigError` when it is not there or damaged."""
        self.files = RunFiles.of(rows)
        if not self.files.holds_results():
            raise ConfigError(
                f"there is no run at {rows}", code="no_run", remedy="Name the file of scored rows of a run."
            )
        self.scored = IndexedRows(self.files.rows, unique=True)
        self.failures = IndexedRows(self.files.failures)
        self.tasks = IndexedRows(self.files.materialized_inputs)

    def failed(self) -> Iterator[RolloutId]:
        """The rollouts that have a failure and no score."""
        return (identity for identity in self.failures if identity not in self.scored)

    def digest(self) -> str:
        """The SHA-256 of its rows and failures, decompressed."""
        whole = hashlib.sha256()
        for path in (self.files.rows, self.files.failures):
            if holds_text(path):
                with open_content(path) as file:
                    while block := file.read(_DIGEST_BYTES):
                        whole.update(block)
        return whole.hexdigest()

    def close(self) -> None:
        for rows in (self.scored, self.failures, self.tasks):
            rows.close()


def is_judge_failure(row: Mapping[str, Any]) -> bool:
    """Whether a failure row is of an attempt that is whole but for a verdict, so that it can be judged again."""
    return str(row.get(NG_FAILURE_CLASS_KEY)).startswith("judge") and isinstance(row.get("response"), Mapping)
