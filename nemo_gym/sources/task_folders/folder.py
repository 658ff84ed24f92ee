"""One task folder: its settings, files and instructions, checked as the format's own loader checks them.

Everything in a folder is untrusted. No link leads out of it, and only regular files of bounded size are read.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import object_in
from nemo_gym.sources.task_folders.digest import digest_folder
from nemo_gym.sources.task_folders.gym_table import GymTable
from nemo_gym.sources.task_folders.ignoring import FileFilter, FolderLinkError, check_links
from nemo_gym.sources.task_folders.settings import (
    EnvironmentSettings,
    StepSettings,
    TaskSettings,
    VerifierMode,
    parse_settings,
)

SETTINGS_FILE: Final = "task.toml"
_CANARY = re.compile(r"(?:<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
_LONGEST_TEXT = 4 << 20
_ENDINGS = {"linux": ".sh", "windows": ".bat"}
_IMAGE_FILES = ("Dockerfile", "docker-compose.yaml")
VERIFIER_PROGRAM: Final = "verifier.py"
TASK_DATA_FILE: Final = "task_data.json"
_DATASET_FILE = "dataset.toml"


class TaskFolderError(ConfigError):
    """A folder that is no task. `reason` is a word for counting, such as `missing_tests`."""

    def __init__(self, root: Path, reason: str, message: str, remedy: str | None = None) -> None:
        super().__init__(f"{root}: {message}", code="invalid_task_folder", remedy=remedy)
        self.root, self.reason = root, reason


@dataclass(frozen=True, slots=True)
class VerifierImage:
    """The image of a separate verifier."""

    settings: EnvironmentSettings
    folder: Path
    """The folder of its Dockerfile."""
    has_tests: bool
    """True if the image brings its own tests."""


@dataclass(frozen=True)
class FolderTask:
    """A task folder that was loaded."""

    root: Path
    settings: TaskSettings
    files: FileFilter
    dataset_digest: str | None = None
    """The digest of what its dataset changes in its settings; None if nothing."""

    @property
    def name(self) -> str:
        """The id of the task: the name of its folder."""
        return self.root.name

    @property
    def environment(self) -> Path:
        return self.root / "environment"

    @property
    def tests(self) -> Path:
        return self.root / "tests"

    @cached_property
    def digest(self) -> str:
        return digest_folder(self.root)

    @property
    def shared_verifier(self) -> Path | None:
        """The `verifier.py` of the dataset that the task belongs to, for tasks without tests; None without one."""
        folder = self.root.parent
        is_there = (folder / VERIFIER_PROGRAM).is_file() and (folder / _DATASET_FILE).is_file()
        return folder / VERIFIER_PROGRAM if is_there else None

    def read_task_data(self) -> dict[str, Any]:
        """Return the data for `verifier.py`: `task_data.json`, else the metadata. Raises TaskFolderError."""
        path = self.root / TASK_DATA_FILE
        if not path.exists():
            return self.settings.metadata
        data = object_in(read_text(path, self.root))
        if data is None:
            raise TaskFolderError(self.root, "invalid_task_data", f"{TASK_DATA_FILE} is no JSON object")
        return data

    def digest_outer_files(self) -> dict[str, str]:
        """Return the digests of the files that count here and are no part of the format's digest, by name."""
        files = [self.root / TASK_DATA_FILE, self.shared_verifier]
        found = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
            if path is not None and path.exists()
        }
        return found if self.dataset_digest is None else {**found, _DATASET_FILE: self.dataset_digest}

    @property
    def steps(self) -> list[StepSettings | None]:
        """Its steps; one None for a task without them."""
        return [*self.settings.steps] if self.settings.steps else [None]

    def folder(self, step: StepSettings | None) -> Path:
        """Return the folder of a step, or of the task."""
        return self.root if step is None else self.root / "steps" / step.name

    def instruction(self, step: StepSettings | None = None) -> str:
        """Return the instruction of a step, or of a task without steps."""
        return strip_canary(read_text(self.folder(step) / "instruction.md", self.root))

    def name_test(self, image: VerifierImage | None = None) -> str:
        """Return the name of a test script for the system of its verifier."""
        settings = image.settings if image is not None else self.settings.environment
        return f"test{_ENDINGS[settings.os]}"

    def find_test(self, step: StepSettings | None, image: VerifierImage | None = None) -> Path | None:
        """Return the test script of a step or, if it has none, of the task."""
        found = (folder / self.name_test(image) for folder in (self.folder(step) / "tests", self.tests))
        return next((path for path in found if path.exists()), None)

    def find_program(self, step: StepSettings | None) -> Path | None:
        """Return the `verifier.py` of a step, of the task or of its dataset, which counts without a test script."""
        own = (folder / VERIFIER_PROGRAM for folder in (self.folder(step) / "tests", self.tests))
        return next((path for path in own if path.is_file()), self.shared_verifier)

    def find_solution(self, step: StepSettings | None = None) -> Path | None:
        """Return the solution script of a step or, if it has no folder for one, of the task."""
        own = self.folder(step) / "solution"
        folder = own if own.exists() else self.root / "solution"
        path = folder / f"solve{_ENDINGS[self.settings.environment.os]}"
        return path if path.exists() else None

    def find_verifier_image(self, step: StepSettings | None = None) -> VerifierImage | None:
        """Return the image of a separate verifier; None for one that shares the agent's sandbox."""
        settings = self.settings
        if settings.find_mode(step) is not VerifierMode.SEPARATE:
            return None
        own = [] if step is None else [(step.verifier.environment, self.folder(step) / "tests")]
        candidates = [*own, (settings.verifier.environment, self.tests)]
        stated = [environment for environment, _ in candidates if environment is not None]
        chosen = stated[0] if stated else settings.environment
        for environment, folder in candidates:
            check_links(folder, self.root, self.files)
            if environment is not None and environment.docker_image:
                return VerifierImage(_change(chosen, docker_image=environment.docker_image), folder, True)
            if any((folder / name).is_file() for name in _IMAGE_FILES):
                check_links(folder, self.root)
                return VerifierImage(_change(chosen, docker_image=None), folder, True)
        check_links(self.environment, self.root)
        system = chosen.os if "os" in chosen.model_fields_set else settings.environment.os
        same = _change(chosen, docker_image=settings.environment.docker_image, os=system)
        return VerifierImage(same, self.environment, False)


def _change(settings: EnvironmentSettings, **changes: str | None) -> EnvironmentSettings:
    return settings.model_copy(update=changes)


def is_task_folder(path: Path) -> bool:
    """Return whether a folder has the settings of a task."""
    return (path / SETTINGS_FILE).is_file()


def load_folder(path: Path, gym: GymTable | None = None) -> FolderTask:
    """Load a task folder, which `gym` of its dataset may change. Raises TaskFolderError with its first fault."""
    root = path.resolve()
    try:
        settings = parse_settings(read_text(root / SETTINGS_FILE, root))
    except tomllib.TOMLDecodeError as error:
        raise TaskFolderError(root, "invalid_toml", f"task.toml is not TOML: {error}") from error
    except ValidationError as error:
        raise TaskFolderError(root, "invalid_settings", _describe(error)) from error
    task = _adjust(FolderTask(root, settings, FileFilter(root)), gym or GymTable())
    try:
        _check_trees(task)
        task.read_task_data()
        for step in task.steps:
            _check_step(task, step)
    except FolderLinkError as error:
        raise TaskFolderError(root, "link_leaves_task", str(error), "Copy the file into the task.") from error
    except (OSError, UnicodeError) as error:
        raise TaskFolderError(root, "unreadable", str(error)) from error
    return task


def _adjust(task: FolderTask, gym: GymTable) -> FolderTask:
    try:
        settings = gym.adjust(task.name, task.settings)
    except ValueError as error:
        why = _describe(error) if isinstance(error, ValidationError) else str(error)
        raise TaskFolderError(
            task.root, "invalid_settings", f'[gym.tasks."{task.name}"] of {_DATASET_FILE}: {why}'
        ) from error
    return replace(task, settings=settings, dataset_digest=gym.digest(task.name))


def _check_trees(task: FolderTask) -> None:
    for step in task.settings.steps or ():
        check_links(task.folder(step), task.root, task.files)
    for name in ("tests", "solution"):
        check_links(task.root / name, task.root, task.files)
    check_links(task.environment, task.root)
    if not task.settings.environment.docker_image and not task.environment.is_dir():
        raise TaskFolderError(
            task.root,
            "missing_environment",
            "it has neither a folder environment/ nor environment.docker_image",
            "Add environment/Dockerfile.",
        )


def _check_step(task: FolderTask, step: StepSettings | None) -> None:
    """Check a step, or a task without steps. Raises TaskFolderError."""
    folder = task.folder(step)
    if not (folder / "instruction.md").exists():
        where = folder.relative_to(task.root) / "instruction.md"
        raise TaskFolderError(task.root, "missing_instruction", f"it has no {where}", f"Write {where}.")
    task.instruction(step)
    image = task.find_verifier_image(step)
    if image is not None and image.has_tests:
        return
    test = task.find_test(step, image)
    if test is None:
        if task.find_program(step) is not None:
            return
        name = f"tests/{task.name_test(image)}"
        raise TaskFolderError(
            task.root, "missing_tests", f"it has no {name}", f"Write {name}, which writes its reward."
        )
    if task.files.excludes(test):
        where = test.relative_to(task.root)
        raise TaskFolderError(task.root, "test_ignored", f".harborignore leaves {where} out")


def read_text(path: Path, root: Path) -> str:
    """Return the text of a file of a task. Raises TaskFolderError."""
    place = path.relative_to(root)
    if not path.exists():
        raise TaskFolderError(root, "missing_file", f"it has no {place}")
    if not path.resolve().is_relative_to(root):
        raise TaskFolderError(root, "link_leaves_task", f"{place} leads outside of the task")
    if not path.is_file() or path.stat().st_size > _LONGEST_TEXT:
        raise TaskFolderError(root, "unreadable", f"{place} is no file of at most {_LONGEST_TEXT >> 20} MiB")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise TaskFolderError(root, "unreadable", f"{place} cannot be read as UTF-8: {error}") from error


def strip_canary(text: str) -> str:
    """Return an instruction without leading comments that mark the data, and the blank lines after them."""
    lines = text.split("\n")
    while lines and _CANARY.fullmatch(lines[0].strip()):
        lines.pop(0)
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)


def _describe(error: ValidationError) -> str:
    found = (f"{'.'.join(map(str, each['loc'])) or 'task.toml'}: {each['msg']}" for each in error.errors())
    return "; ".join(found)
