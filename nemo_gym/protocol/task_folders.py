"""The working folder of a task: files that an agent finds there, and files that the verifier gets back.

A task row states them as `folder: {files: {path: text}, take: [pattern]}`. An agent that works in a folder adds
`folder_files: {path: text}` to the row before it is verified. Paths are relative, with `/` between their parts.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, Field

from nemo_gym.responses.wire import NullMeansDefault

FOLDER_FILES_KEY: Final = "folder_files"


def check_relative_path(path: str) -> str:
    """Return a relative path unchanged. Raises ValueError for a path that could lead out of its folder."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path or str(PurePosixPath(path)) != path:
        raise ValueError(f"{path!r} is not a plain relative path")
    return path


class TaskFolder(BaseModel, extra="forbid"):
    """The files of a task."""

    files: dict[Annotated[str, AfterValidator(check_relative_path)], str] = Field(default_factory=dict)
    """Path → text of the files that are there at the start."""
    take: list[str] = Field(default_factory=list)
    """Patterns of the files that the verifier gets; `*` also matches `/`."""

    def takes(self, path: str) -> bool:
        """Return whether the verifier gets the file at `path`."""
        return any(fnmatchcase(path, pattern) for pattern in self.take)


class TaskWithFolder(BaseModel):
    """The part of a task row that is about its folder, which is empty by default."""

    folder: Annotated[TaskFolder, NullMeansDefault] = Field(default_factory=TaskFolder)
