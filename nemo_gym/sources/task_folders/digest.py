"""The identity of a task folder: equal for equal content, and equal to what the format's own tools compute."""

from __future__ import annotations

import hashlib
from pathlib import Path

from nemo_gym.sources.task_folders.ignoring import FileFilter, list_entries, read_ignored

_FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
_FOLDERS = ("environment", "tests", "solution", "steps")


def list_content(root: Path) -> list[Path]:
    """Return the files that make up a task, in the order of their paths."""
    files, ignored = FileFilter(root), read_ignored(root)
    found = [root / name for name in _FILES if (root / name).exists()]
    for name in _FOLDERS:
        if (root / name).is_dir():
            found += [path for path in list_entries(root / name, files) if path.is_file()]
    named = {path.relative_to(root).as_posix(): path for path in found}
    return [named[name] for name in sorted(named) if not ignored.match_file(name)]


def digest_folder(root: Path) -> str:
    """Return the SHA-256 of a task's files and their paths, in hexadecimal."""
    whole = hashlib.sha256()
    for path in list_content(root):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{path.relative_to(root).as_posix()}\0{content}\n".encode())
    return whole.hexdigest()
