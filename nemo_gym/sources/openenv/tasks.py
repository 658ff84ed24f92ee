"""The rows of an environment as OpenEnv's tasks, in splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_gym.failures import ConfigError, InputError
from nemo_gym.rows.forms import TaskRow
from nemo_gym.rows.parts import read_params

_KINDS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class TaskSplits:
    """The task rows by the names of their splits."""

    rows: Mapping[str, Sequence[TaskRow]]

    def __post_init__(self) -> None:
        """Raise `ConfigError` without a row, and for a row without an input."""
        if not any(self.rows.values()):
            raise ConfigError("There are no task rows to serve.", code="no_dataset")
        for split, rows in self.rows.items():
            for index, row in enumerate(rows):
                if not isinstance(read_params(row).get("input"), str | list):
                    raise ConfigError(
                        f"Row {index} of {split} has no `responses_create_params.input`.",
                        code="invalid_row",
                        remedy="Rows of a prompt template are made whole by `gym dataset render`.",
                    )

    def list_splits(self) -> list[dict[str, str]]:
        """Return the splits as OpenEnv has them. Splits of other names are for validation."""
        return [{"name": name, "type": name if name in _KINDS else "validation"} for name in self.rows]

    def get_rows(self, split: str) -> Sequence[TaskRow]:
        """Return the rows of a split. Raises `InputError` for an unknown one."""
        rows = self.rows.get(split)
        if rows is None:
            raise InputError(
                f"there is no split {split!r}, but {', '.join(self.rows)}", code="not_found", status=404
            )
        return rows

    def get_row(self, split: str, index: int) -> TaskRow:
        """Return a row. Raises `InputError` for an unknown one."""
        rows = self.get_rows(split)
        if not 0 <= index < len(rows):
            raise InputError(f"split {split!r} has no task {index}, but {len(rows)}", code="not_found")
        return rows[index]

    def choose(self, arguments: Mapping[str, Any], turn: int = 0) -> TaskRow:
        """Return the row that a reset names: by `split` and `index`, or by `seed`; else that of `turn`.

        Raises `InputError` for arguments of another form.
        """
        split = arguments.get("split", next(iter(self.rows)))
        index, seed = arguments.get("index"), arguments.get("seed")
        if not isinstance(split, str):
            raise InputError(f"`split` is {split!r}, and not a name", code="invalid_reset", param="split")
        for name, value in (("index", index), ("seed", seed)):
            if value is not None and (not isinstance(value, int) or value < 0):
                raise InputError(
                    f"`{name}` is {value!r}, and not a number from 0", code="invalid_reset", param=name
                )
        if index is None:
            index = (turn if seed is None else seed) % max(1, len(self.get_rows(split)))
        return self.get_row(split, index)
