"""The equal tasks of a run, which its figures take for one, read from its task rows and then followed."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from nemo_gym.json_objects import parse_object
from nemo_gym.rollouts.lookback.task_clusters import TaskClusters
from nemo_gym.rollouts.plan.dataset import BYTE_ORDER_MARK
from nemo_gym.rows.identity import identity_in
from nemo_gym.viewer.indexing import PlainRows
from nemo_gym.viewer.runs import Run


class FollowedTasks:
    """The task rows of a run."""

    def __init__(self, run: Run) -> None:
        path = run.files.materialized_inputs
        self._content = PlainRows(path, lambda path: run.fault(path) is None)
        self._clusters = TaskClusters()
        self._read = 0
        self._inode: int | None = None
        self._lock = threading.Lock()

    def read_equal(self) -> Mapping[int, int]:
        """Return the index of each task that repeats another → that of this one. Blocks while it reads new rows.

        A run without task rows has none, and lines that are not rows are left out. Raises `InputError` for a damaged
        file.
        """
        with self._lock:
            self._read_on()
            return dict(self._clusters.firsts)

    def close(self) -> None:
        """Remove the decompressed copy, if there is one."""
        self._content.close()

    def _read_on(self) -> None:
        path = self._content.locate()
        if path is None:
            return
        status = path.stat()
        if status.st_ino != self._inode or status.st_size < self._read:
            self._inode, self._read, self._clusters = status.st_ino, 0, TaskClusters()
        with path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                row = parse_object(line.removeprefix(BYTE_ORDER_MARK)) or {}
                identity = identity_in(row)
                if identity is not None and identity.task not in self._clusters:
                    self._clusters.add(identity.task, row)
