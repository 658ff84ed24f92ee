"""Failed attempts, grouped by their cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.names import FAILURE_CLASS_KEY
from nemo_gym.rollouts.run.answer import FAILURE_KEY

_EXAMPLES = 20


@dataclass(slots=True)
class _Group:
    failure: str
    first: Mapping[str, Any]
    count: int = 0
    rows: list[tuple[int, int]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        fields = {name: self.first.get(name) for name in ("message", "remedy", "peer", "boundary")}
        return {"failure": self.failure, "count": self.count, **fields, "rows": self.rows}


def group_failures(path: Path) -> list[dict[str, Any]]:
    """Return the groups of a file of failures by class and peer, the largest first, with places of their first rows."""
    groups: dict[tuple[str, str], _Group] = {}
    start = 0
    with path.open("rb") as file:
        for line in file:
            row = _parsed(line)
            failure = row.get(FAILURE_KEY)
            fields = failure if isinstance(failure, Mapping) else {}
            name = str(row.get(FAILURE_CLASS_KEY))
            group = groups.setdefault((name, str(fields.get("peer"))), _Group(name, fields))
            group.count += 1
            if len(group.rows) < _EXAMPLES:
                group.rows.append((start, len(line)))
            start += len(line)
    return [group.as_json() for group in sorted(groups.values(), key=lambda group: -group.count)]


def _parsed(line: bytes) -> Mapping[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return row if isinstance(row, Mapping) else {}
