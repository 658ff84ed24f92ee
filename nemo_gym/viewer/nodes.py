"""The machines of a run's gym: as they are now, or as they were at the end of the run.

A file of nodes is untrusted like every other file of a run: fields of other types are left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from nemo_gym.json_objects import finite_number

_SILENT_AFTER_S: Final = 90.0
"""Seconds without a write after which a gym is taken for gone. A running one writes every few seconds."""
_NODE_TEXTS: Final = ("name", "address", "state", "log")
_NODE_NUMBERS: Final = ("load", "losses", "in_flight", "most_in_flight", "restarts", "generation")
_REPLICA_TEXTS: Final = ("server", "node", "state", "log")
_REPLICA_NUMBERS: Final = ("replica", "generation", "restarts")
_MOST_SHOWN: Final = 10_000


class Standing(StrEnum):
    """The time of which a description of nodes is."""

    CURRENT = "current"
    ENDED = "ended"
    """The gym has ended."""
    SILENT = "silent"
    """The gym was killed, or its machine stopped."""
    KEPT = "kept"
    """The run has ended. Its gym may go on."""


def read_nodes(
    document: Mapping[str, Any], *, is_kept: bool, now: float | None = None
) -> dict[str, Any] | None:
    """Return the machines, replicas and events of a file of nodes as the page reads them; None without machines.

    `is_kept`: whether the file is that of the run, and not of its gym.
    """
    nodes = [_read_node(each) for each in _mappings(document.get("nodes"))]
    if not nodes:
        return None
    at = finite_number(document.get("at")) or 0.0
    return {
        "standing": _find_standing(document, at, is_kept, time.time() if now is None else now),
        "at": at,
        "nodes": nodes,
        "replicas": [
            _fields(each, _REPLICA_TEXTS, _REPLICA_NUMBERS) for each in _mappings(document.get("replicas"))
        ],
        "events": [_read_event(each) for each in _mappings(document.get("events"))],
        "left_out": finite_number(document.get("left_out")) or 0,
    }


def summarize_nodes(nodes: Mapping[str, Any] | None) -> dict[str, int] | None:
    """Return the number of machines, of those that are up, and of losses."""
    if nodes is None:
        return None
    machines = nodes["nodes"]
    return {
        "count": len(machines),
        "up": sum(each["state"] == "up" for each in machines),
        "losses": sum(int(each["losses"]) for each in machines),
    }


def logs_in(nodes: Mapping[str, Any] | None) -> set[str]:
    """Return the names of the logs of machines and replicas. None of them leads out of the log folder."""
    if nodes is None:
        return set()
    named = {each["log"] for each in (*nodes["nodes"], *nodes["replicas"])}
    return {name for name in named if name.endswith(".log") and Path(name).name == name}


def _find_standing(document: Mapping[str, Any], at: float, is_kept: bool, now: float) -> Standing:
    if is_kept:
        return Standing.KEPT
    if document.get("ended_at") is not None:
        return Standing.ENDED
    return Standing.SILENT if now - at > _SILENT_AFTER_S else Standing.CURRENT


def _read_node(node: Mapping[str, Any]) -> dict[str, Any]:
    replicas = node.get("replicas")
    counts = {
        str(server): number
        for server, count in (replicas.items() if isinstance(replicas, Mapping) else ())
        if (number := finite_number(count)) is not None
    }
    return {**_fields(node, _NODE_TEXTS, _NODE_NUMBERS), "replicas": counts}


def _read_event(event: Mapping[str, Any]) -> dict[str, Any]:
    replicas = event.get("replicas")
    pairs = replicas if isinstance(replicas, list) else []
    servers = dict.fromkeys(str(pair[0]) for pair in pairs if isinstance(pair, list) and pair)
    return {**_fields(event, ("kind", "text", "node"), ("at",)), "servers": list(servers)}


def _fields(found: Mapping[str, Any], texts: tuple[str, ...], numbers: tuple[str, ...]) -> dict[str, Any]:
    return {name: value if isinstance(value := found.get(name), str) else "" for name in texts} | {
        name: finite_number(found.get(name)) or 0 for name in numbers
    }


def _mappings(found: Any) -> Iterator[Mapping[str, Any]]:
    entries = found[:_MOST_SHOWN] if isinstance(found, list) else ()
    return (each for each in entries if isinstance(each, Mapping))
