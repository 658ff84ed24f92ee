"""The recorded tool calls of an attempt, as its servers and the collector read them (`resources.recorded_tools`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from nemo_gym.json_objects import object_in

SUFFIX: Final = ".tools.jsonl"
"""The end of the names of files with tool calls, in the folder of a record."""

Line = dict[str, Any]


def read_tool_lines(folder: Path) -> list[Line]:
    """Return the calls of tools in the record of an attempt, in the order of their results."""
    files = folder.glob(f"*{SUFFIX}")
    found = (object_in(line) for path in files for line in path.read_bytes().split(b"\n") if line)
    return sorted((line for line in found if line is not None), key=lambda line: float(line["ended_at"]))


def describe_given(folder: Path) -> dict[str, Any]:
    """Return the members of a row that say which recorded results an attempt was given; none without any."""
    given = [line for line in read_tool_lines(folder) if line.get("given")]
    about: dict[str, Any] = {"tools_recorded": len(given)} if given else {}
    return about | ({"from_snapshot": True} if any("snapshot" in line for line in given) else {})
