"""Validation of an environment's task rows one by one, for authors' scripts and tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from nemo_gym.datasets.checking import task_faults
from nemo_gym.rows.forms import AnyRow

_MOST_SHOWN = 20


@dataclass
class TaskDataValidationReport:
    """The faults of the rows that were validated."""

    server_name: str
    dataset_fpath: str
    rows: int = 0
    error_rows: int = 0
    """Rows with a fault."""
    errors: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Return whether no row has a fault."""
        return not self.error_rows

    def summary(self) -> str:
        """Return the counts and the first faults as text."""
        head = f"{self.dataset_fpath} ({self.server_name}): {self.error_rows} of {self.rows} rows have faults"
        more = [f"and {len(self.errors) - _MOST_SHOWN} more"] if len(self.errors) > _MOST_SHOWN else []
        return "\n  ".join([head, *self.errors[:_MOST_SHOWN], *more])


class TaskDataValidator:
    """Validates rows by the schema of an environment (`load_task_data_schema`)."""

    def __init__(self, server_name: str, adapter: TypeAdapter[Any], dataset_fpath: str) -> None:
        self._schema = adapter
        self.report = TaskDataValidationReport(server_name, dataset_fpath)

    def validate_row(self, row_index: int, row: AnyRow) -> None:
        """Add the faults of a row to the report."""
        faults = [
            f"row {row_index}: {fault.field}: {fault.message}" for fault in task_faults(self._schema, row)
        ]
        self.report.rows += 1
        self.report.error_rows += bool(faults)
        self.report.errors += faults
