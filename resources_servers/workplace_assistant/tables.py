"""The tables of a workplace: rows shared by all sessions, and the changes of one session.

A session holds only its changes. A thousand sessions are therefore cheap, and two sessions are in the same state when
their changes are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Mapping[str, Row]
"""Rows by their id."""

_ID_LENGTH = 8


class Table:
    """One table in one session. Ids are numbers of eight digits, assigned in ascending order and never reused."""

    def __init__(self, id_column: str, base: Rows) -> None:
        self.id_column = id_column
        self._base = base
        self._changed: dict[str, dict[str, Any]] = {}
        self._created: dict[str, dict[str, Any]] = {}
        self._deleted: set[str] = set()
        self._next_id = max((int(key) for key in base), default=-1) + 1

    def rows(self) -> Iterator[Row]:
        """Yield every row in the order of the ids."""
        for key, row in self._base.items():
            if key not in self._deleted:
                yield self._changed.get(key, row)
        yield from self._created.values()

    def get(self, key: str) -> Row | None:
        if key in self._deleted:
            return None
        return self._created.get(key) or self._changed.get(key) or self._base.get(key)

    def insert(self, row: Row) -> str:
        """Add a row and return its id."""
        key = f"{self._next_id:0{_ID_LENGTH}}"
        self._next_id += 1
        self._created[key] = {self.id_column: key, **row}
        return key

    def update(self, key: str, column: str, value: Any) -> None:
        """Change a cell of an existing row."""
        row = self._created.get(key) or self._changed.setdefault(key, dict(self._base[key]))
        row[column] = value

    def delete(self, key: str) -> None:
        """Remove an existing row."""
        if self._created.pop(key, None) is None:
            self._deleted.add(key)

    def changes(self) -> dict[str, Any]:
        """Return the changed cells, the deleted rows and the created rows.

        Created rows have no ids here, because ids depend on the order of creation.
        """
        cells = {
            key: {column: value for column, value in row.items() if value != self._base[key][column]}
            for key, row in self._changed.items()
            if key not in self._deleted
        }
        return {
            "changed": {key: different for key, different in cells.items() if different},
            "deleted": dict.fromkeys(self._deleted, True),
            "created": [
                {column: value for column, value in row.items() if column != self.id_column}
                for row in self._created.values()
            ],
        }


@dataclass(frozen=True, slots=True)
class WorkplaceData:
    """The initial state of every session."""

    now: str
    """The current time, "YYYY-MM-DD HH:MM:SS"."""
    addresses: tuple[str, ...]
    """The email addresses of the employees."""
    emails: Rows
    events: Rows
    visits: tuple[Row, ...]
    """Visits to the web site, read-only."""
    tasks: Rows
    customers: Rows


class Workplace:
    """The workplace of one session."""

    def __init__(self, data: WorkplaceData) -> None:
        self.now = data.now
        self.addresses = data.addresses
        self.visits = data.visits
        self.emails = Table("email_id", data.emails)
        self.events = Table("event_id", data.events)
        self.tasks = Table("task_id", data.tasks)
        self.customers = Table("customer_id", data.customers)
        self.plots = Table("plot_id", {})

    def changes(self) -> dict[str, Any]:
        """Return the state of the workplace as its changes since the beginning."""
        return {
            "emails": self.emails.changes(),
            "events": self.events.changes(),
            "tasks": self.tasks.changes(),
            "customers": self.customers.changes(),
            "plots": self.plots.changes(),
        }
