"""The files of a task folder that count: without those of `.harborignore`, which holds below `tests` and `solution`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORE_FILE = ".harborignore"
_SCOPES = frozenset({"tests", "solution"})
_DEFAULT_RULES = GitIgnoreSpec.from_lines(["__pycache__/", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~"])


class FolderLinkError(ValueError):
    """A link that leaves the task, or a cycle of links."""


class FileFilter:
    """Tells which files of a task `.harborignore` leaves out. A rule also holds for what a link leads to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._rules: dict[Path, GitIgnoreSpec] = {}

    def excludes(self, path: Path) -> bool:
        """Return whether a path, or what it leads to in the task, is left out."""
        if not path.is_relative_to(self.root):
            return False
        if self._matches(path):
            return True
        resolved = path.resolve() if path.is_symlink() or path.parent.resolve() != path.parent else path
        return resolved != path and resolved.is_relative_to(self.root) and self._matches(resolved)

    def _matches(self, path: Path) -> bool:
        if path.name == IGNORE_FILE:
            return True
        parts = path.relative_to(self.root).parts
        depth = find_scope(parts)
        if depth is None:
            return False
        rules: list[tuple[int, GitIgnoreSpec]] = []
        for length in range(depth, len(parts) + 1):
            candidate = self.root.joinpath(*parts[:length])
            suffix = "/" if length < len(parts) or candidate.is_dir() else ""
            is_excluded = False
            for start, spec in rules:
                match = spec.check_file("/".join(parts[start:length]) + suffix)
                if match.include is not None:
                    is_excluded = match.include
            if is_excluded:
                return True
            rules += self._read_rules(candidate, length)
        return False

    def _read_rules(self, folder: Path, depth: int) -> list[tuple[int, GitIgnoreSpec]]:
        if folder not in self._rules:
            file = folder / IGNORE_FILE
            if not file.is_file():
                return []
            if not file.resolve().is_relative_to(self.root):
                raise FolderLinkError(f"{file} leads outside of the task")
            self._rules[folder] = _read_spec(file)
        return [(depth, self._rules[folder])]


def find_scope(parts: tuple[str, ...]) -> int | None:
    """Return the number of parts after which `.harborignore` holds; None for a path where it does not."""
    if parts[:1] and parts[0] in _SCOPES:
        return 1
    is_of_step = len(parts) > 2 and parts[0] == "steps" and parts[2] in _SCOPES
    return 3 if is_of_step else None


def check_links(path: Path, root: Path, files: FileFilter | None = None) -> None:
    """Check that a tree, with what its links lead to, stays in the task and has no cycle. Raises FolderLinkError."""

    def visit(candidate: str, resolved: str, ancestors: frozenset[str], *, is_folder: bool) -> None:
        if files is not None and files.excludes(Path(candidate)):
            return
        if not _is_below(resolved, str(root)):
            raise FolderLinkError(f"{candidate} leads outside of the task")
        if not is_folder:
            return
        if resolved in ancestors:
            raise FolderLinkError(f"{candidate} is a cycle of links")
        with os.scandir(candidate) as entries:
            for entry in entries:
                is_link = entry.is_symlink()
                real = os.path.realpath(entry.path) if is_link else os.path.join(resolved, entry.name)  # noqa: PTH118
                visit(entry.path, real, ancestors | {resolved}, is_folder=os.path.isdir(entry.path))  # noqa: PTH112

    try:
        visit(str(path), os.path.realpath(path), frozenset(), is_folder=path.is_dir())
    except RecursionError as error:
        raise FolderLinkError(f"{path} has too many folders in each other") from error


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def list_entries(folder: Path, files: FileFilter) -> Iterator[Path]:
    """Yield the entries of a folder that count, without following links to folders, each folder before its content."""
    if files.excludes(folder):
        return
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                path = Path(entry.path)
                if not files.excludes(path):
                    yield path
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)


def read_ignored(root: Path) -> GitIgnoreSpec:
    """Return the rules of the task's `.gitignore`, or the usual ones: its files are no part of the task's identity."""
    file = root / ".gitignore"
    return _read_spec(file) if file.is_file() else _DEFAULT_RULES


def _read_spec(file: Path) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8").splitlines())
