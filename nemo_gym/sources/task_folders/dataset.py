"""The tasks at a path: one task folder, a folder of them, or a `dataset.toml` that names them."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field, ValidationError

from nemo_gym.failures import ConfigError
from nemo_gym.sources.task_folders.folder import (
    FolderTask,
    TaskFolderError,
    is_task_folder,
    load_folder,
    read_text,
)
from nemo_gym.sources.task_folders.gym_table import GymTable

DATASET_FILE: Final = "dataset.toml"


class DatasetInfo(BaseModel):
    name: str


class NamedDigest(BaseModel):
    """A task or a file of a dataset, with its digest."""

    name: str | None = None
    path: str | None = None
    digest: str


class DatasetSettings(BaseModel):
    """A `dataset.toml`, as far as it is read."""

    dataset: DatasetInfo
    tasks: list[NamedDigest] = Field(default_factory=list)
    files: list[NamedDigest] = Field(default_factory=list)
    gym: GymTable = Field(default_factory=GymTable)


@dataclass(frozen=True, slots=True)
class FolderDataset:
    """The folders of tasks at a path."""

    root: Path
    """The folder in which the folders of tasks are."""
    folders: list[Path]
    settings: DatasetSettings | None = None
    digests: dict[Path, str] = field(default_factory=dict)
    """The digests that `dataset.toml` states."""

    @property
    def name(self) -> str:
        return self.settings.dataset.name if self.settings is not None else self.root.name

    @property
    def gym(self) -> GymTable:
        """The table `[gym]` of its file; an empty one without a file."""
        return self.settings.gym if self.settings is not None else GymTable()

    def load(self) -> Iterator[FolderTask | TaskFolderError]:
        """Yield every task, or its fault."""
        for folder in self.folders:
            try:
                task = load_folder(folder, self.gym)
                stated = self.digests.get(folder)
                if stated is not None and stated != task.digest:
                    raise TaskFolderError(
                        folder, "changed", f"its digest is {task.digest}, and {DATASET_FILE} says {stated}"
                    )
                yield task
            except TaskFolderError as error:
                yield error


def is_folder_of_tasks(path: Path) -> bool:
    """Return whether a path is a task folder, a dataset of them, or a folder with one in it."""
    if path.name == DATASET_FILE:
        return path.is_file()
    if not path.is_dir():
        return False
    return (
        is_task_folder(path)
        or (path / DATASET_FILE).is_file()
        or any(map(is_task_folder, _list_folders(path)))
    )


def find_tasks(path: Path) -> FolderDataset:
    """Return the tasks at a path. Raises ConfigError if there is none, or a dataset's file is wrong."""
    path = path.expanduser().absolute()
    file = path if path.name == DATASET_FILE else path / DATASET_FILE
    if file.is_file():
        return _read_dataset(file)
    if not path.is_dir():
        is_there = path.exists()
        raise ConfigError(
            f"{path} is a file, and tasks are folders." if is_there else f"There is no folder {path}.",
            code="no_tasks",
            remedy=f"Name its folder, {path.parent}."
            if is_there
            else "Name the folder of a task, a folder of tasks, or a dataset.toml.",
        )
    if is_task_folder(path):
        whole = path.parent / DATASET_FILE
        return (
            replace(_read_dataset(whole), folders=[path.resolve()])
            if whole.is_file()
            else FolderDataset(path.parent, [path])
        )
    folders = [folder for folder in _list_folders(path) if is_task_folder(folder)]
    if not folders:
        raise ConfigError(
            f"There is no task at {path}.",
            code="no_tasks",
            remedy="A task is a folder with task.toml. `gym dataset init FOLDER` makes one.",
        )
    return FolderDataset(path, folders)


def read_gym_table(root: Path) -> GymTable:
    """Return the table `[gym]` of the dataset in a folder; an empty one without a dataset. Raises ConfigError."""
    file = root / DATASET_FILE
    return _read_dataset(file).gym if file.is_file() else GymTable()


def _list_folders(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))


def _read_dataset(file: Path) -> FolderDataset:
    root = file.parent.resolve()
    try:
        settings = DatasetSettings.model_validate(tomllib.loads(read_text(file.resolve(), root)))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise ConfigError(f"{file} is no dataset: {error}", code="invalid_dataset") from error
    problems = [*_check_files(settings, root)]
    found = {folder.name: folder for folder in _list_folders(root) if is_task_folder(folder)}
    problems += [
        f'[gym.tasks."{name}"] names no task in {root}' for name in settings.gym.tasks.keys() - found.keys()
    ]
    chosen: dict[Path, str] = {}
    for task in settings.tasks:
        folder = found.get((task.name or "").rpartition("/")[2])
        if folder is None:
            problems.append(f"the task {task.name} is not in {root}; `gym dataset pull` fetches tasks")
        else:
            chosen[folder] = task.digest.removeprefix("sha256:")
    if problems:
        raise ConfigError(f"{file}: {'; '.join(problems)}", code="invalid_dataset")
    folders = list(chosen) if settings.tasks else list(found.values())
    return FolderDataset(root, folders, settings, chosen)


def _check_files(settings: DatasetSettings, root: Path) -> Iterator[str]:
    for each in settings.files:
        path = root / (each.path or "")
        if not path.resolve().is_relative_to(root) or not path.is_file():
            yield f"the file {each.path} is not in the dataset"
        elif hashlib.sha256(path.read_bytes()).hexdigest() != each.digest.removeprefix("sha256:"):
            yield f"the file {each.path} has another digest"
