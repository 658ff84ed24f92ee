"""The files in an agent's folder that are its work, as opposed to the records of its run."""

from __future__ import annotations

from pathlib import Path

IGNORE_FILES = frozenset(
    {
        "finish_params.json",
        "history.json",
        "history.pkl",
        "inprogress_history.json",
        "log.txt",
        "metadata.json",
        "reference_files",
    }
)
"""Names of records that agents of the ecosystem write."""


def is_deliverable(path: Path) -> bool:
    """Return whether `path` is a file of the agent's work."""
    return path.is_file() and path.name not in IGNORE_FILES
