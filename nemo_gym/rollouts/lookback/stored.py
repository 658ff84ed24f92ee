"""Random access to the rows of a finished run; only their positions are in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import object_in
from nemo_gym.rollouts.lookback.account import RunAccount
from nemo_gym.rollouts.output.files import RunFiles, find_ending
from nemo_gym.rollouts.output.finished import PlacedRow, PlacedRows, duplicate_row, parse_row
from nemo_gym.rollouts.plan.compression import holds_text, open_content
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.verdict import is_result

_DIGEST_BYTES = 1 << 20
_SHOWN_KEYS = 5


def find_results(rows: Path) -> RunFiles:
    """Return the files of the run with the rows `rows`.

    Raises `ConfigError` if there is no such run, or if the first row is of another kind: a task, a draw, a sample for
    a trainer.
    """
    files = RunFiles.from_existing(rows)
    first = next(read_lines(files.rows), None) if holds_text(files.rows) else None
    row = object_in(first.content) if first is not None else None
    if first is not None and row is not None and not is_result(row):
        raise ConfigError(
            f"{rows}:{first.number}: no result of a rollout: it has neither reward nor response, but {_list_keys(row)}",
            code="no_results",
            remedy="Name the scored rows that a run has written to its +output_jsonl_fpath (gym: --output).",
        )
    return files


def find_begun(rows: Path) -> RunFiles | None:
    """Return the files of a durable run, even if it has no row yet; None without records of its attempts."""
    files = RunFiles.from_output(rows) if find_ending(rows) is not None else None
    return files if files is not None and files.attempts.is_dir() else None


def _list_keys(row: AnyRow) -> str:
    return ", ".join(f"`{key}`" for key in [*row][:_SHOWN_KEYS]) or "no key"


class IndexedRows(PlacedRows):
    """A JSONL file of rows, indexed by rollout. The last of several rows of a rollout is used."""

    def __init__(
        self,
        path: Path,
        *,
        unique: bool = False,
        numbers_rows: bool = False,
        problems: list[str] | None = None,
    ) -> None:
        """Raises `ConfigError` for an invalid line and, with `unique`, for a second row of a rollout.

        With `problems`, such lines are left out, and their descriptions are added to them.
        """
        super().__init__(path, numbers_rows=numbers_rows, may_be_torn=True, problems=problems)
        self._index: dict[RolloutId, PlacedRow] = {}
        for row in self.places:
            if unique and row.identity in self._index:
                refusal = duplicate_row(path, row.number, row.identity)
                if problems is None:
                    raise refusal
                problems.append(refusal.failure.message)
            else:
                self._index[row.identity] = row

    def __contains__(self, identity: object) -> bool:
        return identity in self._index

    def __iter__(self) -> Iterator[RolloutId]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def read_line(self, identity: RolloutId) -> bytes:
        """Return the bytes of the rollout's row, without the line break."""
        return self.line(self._index[identity])

    def row(self, identity: RolloutId) -> dict[str, Any]:
        return parse_row(self.read_line(identity), self.path, self._index[identity].number)


class StoredRun:
    """A finished run: scored rows, failures, and the task rows sent to agents."""

    def __init__(
        self, rows: Path, problems: list[str] | None = None, *, may_have_begun: bool = False
    ) -> None:
        """`rows` is the run's file of scored rows. Raises `ConfigError` if it is missing or damaged.

        With `problems`, damaged lines are left out, and their descriptions are added to them. `may_have_begun`: a run
        that has records of attempts needs no row yet.
        """
        begun = find_begun(rows) if may_have_begun else None
        self.files = begun if begun is not None else find_results(rows)
        self.scored = IndexedRows(self.files.rows, unique=True, numbers_rows=True, problems=problems)
        self.failures = IndexedRows(self.files.failures, problems=problems)
        self.tasks = IndexedRows(self.files.materialized_inputs, problems=problems)

    def open_account(self) -> RunAccount:
        """Return the account of the run, to which its reader adds the scored rows."""
        account = RunAccount.open(self.files)
        account.is_torn, account.unnamed = self.scored.is_torn, self.scored.unnamed
        account.failed = sum(1 for _ in self.list_failed())
        return account

    def describe_progress(self) -> Iterator[str]:
        """Yield the sentence about a run that has not all of its rows; none for any other."""
        if (said := self.open_account().progress.describe(len(self.scored))) is not None:
            yield f"{self.files.rows}: {said}"

    def list_failed(self) -> Iterator[RolloutId]:
        """Yield the rollouts that have a failure and no score."""
        return (identity for identity in self.failures if identity not in self.scored)

    def digest(self) -> str:
        """Return the SHA-256 of the decompressed rows and failures."""
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
