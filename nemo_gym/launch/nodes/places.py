"""The places of the launcher's folders on a node. They are the same, apart from those that Ray has copied there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nemo_gym import PARENT_DIR


@dataclass(frozen=True, slots=True)
class Moved:
    """Folders of the launcher that a node may have elsewhere. All paths are the launcher's."""

    package: str
    """The folder of the package `nemo_gym`, which each interpreter imports from its own place."""
    working_dir: str | None = None
    """The folder whose copy a node host is started in."""
    modules: Sequence[str] = field(default_factory=tuple)
    """Folders whose copies are on the search path of a node host."""


class Places:
    """Finds the launcher's paths on this node."""

    def __init__(self, moved: Moved | None) -> None:
        """Must be called in the folder in which the node host was started. None: no folder is elsewhere."""
        self._prefixes: list[tuple[Path, Sequence[Path]]] = []
        if moved is None:
            return
        searched = [Path(entry) for entry in sys.path if entry]
        for module in map(Path, moved.modules):
            self._prefixes.append((module, [entry / module.name for entry in searched]))
        if moved.working_dir is not None:
            self._prefixes.append((Path(moved.working_dir), [Path.cwd()]))
        self._prefixes.append((Path(moved.package), [PARENT_DIR]))
        self._prefixes.sort(key=lambda prefix: len(prefix[0].parts), reverse=True)

    def find_place(self, path: str) -> str:
        """Return the place of a path of the launcher: in the copy of the longest prefix that has it, else the same."""
        for prefix, copies in self._prefixes:
            if Path(path).is_relative_to(prefix):
                rest = Path(path).relative_to(prefix)
                for copy in copies:
                    if (copy / rest).exists():
                        return str(copy / rest)
        return path
