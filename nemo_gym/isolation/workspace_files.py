"""Files that are written into a workspace before the first program runs in it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from nemo_gym.isolation.confinement import Workspace

__all__ = ["put_files"]


def put_files(workspace: Workspace, files: Mapping[str, str], folder: str = ".") -> None:
    """Write files, by relative path, into a folder of the workspace, which belongs to its programs then.

    No program may have run in the folder. Raises OSError for paths that exclude each other, and ValueError for a text
    that is not Unicode.
    """
    place = workspace.folder / folder
    place.mkdir(mode=0o700, exist_ok=True)
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, encoding="utf-8", newline="")
    if workspace.user is not None:
        for entry in (place, *place.rglob("*")):
            os.chown(entry, workspace.user.uid, workspace.user.uid, follow_symlinks=False)
