"""The state of a rollout's record in one model server process: its size, and the requests that later ones add to."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

from nemo_gym.engines.record.deltas import RequestIndex
from nemo_gym.engines.record.files import RecordReader, read_record

_MOST_ROLLOUTS = 4096
"""Rollouts whose state is kept; that of an older one is read again with its next call."""


class RolloutIndex:
    """The calls in a record, of all model servers."""

    def __init__(self, folder: Path) -> None:
        self._reader = RecordReader(folder)
        self._folder = folder
        self._digests: set[str] = set()
        self.requests = RequestIndex()
        self.calls = 0
        self.sampled_tokens = 0

    def refresh(self) -> None:
        """Read the calls that were recorded since the last time."""
        for line in self._reader.new().lines:
            self.requests.add(line["model_call_id"], line["dialect"], line["request"])
            self.calls += 1
            self.sampled_tokens += line.get("sampled_tokens", 0)
            if line["status_code"] == 200:
                self._digests.add(line["digest"])

    def answer_to(self, digest: str) -> dict[str, Any] | None:
        """Return the last answer to a request with this digest, or None."""
        if digest not in self._digests:
            return None
        lines = (line for line in reversed(read_record(self._folder).lines) if line["digest"] == digest)
        return next((line["response"] for line in lines if line["status_code"] == 200), None)


class RolloutIndices:
    """The indices of the rollouts that were called last."""

    def __init__(self) -> None:
        self._indices: OrderedDict[Path, RolloutIndex] = OrderedDict()

    def read_index(self, folder: Path) -> RolloutIndex:
        """Return the index of a rollout, as its record is now."""
        index = self._indices.get(folder)
        if index is None:
            index = self._indices[folder] = RolloutIndex(folder)
        self._indices.move_to_end(folder)
        while len(self._indices) > _MOST_ROLLOUTS:
            self._indices.popitem(last=False)
        index.refresh()
        return index

    def drop(self, folder: Path) -> None:
        self._indices.pop(folder, None)
