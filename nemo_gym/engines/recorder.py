"""Recordings of a model server's answers (`record_to`), the input of `replay_model`.

A recording is a data set and not a record of rollouts: its lines name no rollout, no time and no failure, calls outside
of rollouts are in it, and Messages are in it as the Responses requests that they were converted to. `engines.record`
has what rollouts asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.failures import ConfigError

__all__ = ["Recorder"]


class Recorder:
    """Appends calls to a JSONL file, one write per call, so that all processes of a server can share the file."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises `ConfigError` if it is not writable."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._unwritable(error) from error

    def add(self, api: str, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        line = orjson.dumps({"api": api, "request": request, "answer": answer}) + b"\n"
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise self._unwritable(error) from error
        if written < len(line):
            raise self._unwritable(OSError(None, "the disk is full"))

    def close(self) -> None:
        os.close(self._fd)

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"cannot record to {self.path}: {error.strerror}",
            code="record_unwritable",
            param="record_to",
            remedy="Free disk space, or set record_to to another file.",
        )
