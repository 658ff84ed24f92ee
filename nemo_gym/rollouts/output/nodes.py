"""`<stem>_nodes.json`: the machines of a run's gym at the end of the run, and what has happened to them during it.

It is the `nodes.json` of the gym's log folder (format: `nemo_gym/launch/nodes/history.py`), cut to the time of the run.
The gym may go on after the run, and its log folder is removed some day.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.json_objects import finite_number, member, object_in
from nemo_gym.names import NODES_FILE
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.disk import disk
from nemo_gym.rollouts.output.files import RunFiles


def keep_nodes(files: RunFiles, logs: Path | None, started_at: str) -> None:
    """Write the file of the run that began at `started_at` (ISO 8601), or remove that of an earlier start.

    Raises `ConfigError` if it cannot be written.
    """
    document = read_nodes(logs / NODES_FILE) if logs is not None else None
    if document is None:
        disk().remove(files.nodes)
    else:
        write_atomically(files.nodes, orjson.dumps(drop_earlier_events(document, started_at)))


def read_nodes(path: Path) -> dict[str, Any] | None:
    """Return the content of a file of nodes; None if there is no such file."""
    try:
        return object_in(path.read_bytes())
    except OSError:
        return None


def drop_earlier_events(document: Mapping[str, Any], started_at: str) -> dict[str, Any]:
    """Return the document without events before `started_at` (ISO 8601). A text that is no time leaves all of them."""
    try:
        start = datetime.fromisoformat(started_at).timestamp()
    except ValueError:
        start = 0.0
    events = document.get("events")
    events = events if isinstance(events, list) else []
    return {**document, "events": [each for each in events if _read_time(each) >= start]}


def _read_time(event: Any) -> float:
    return finite_number(member(event, "at")) or 0.0
