"""The files of a task folder, fields that are unknown, and settings that do not fit together."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Collection, Iterator
from itertools import combinations
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from nemo_gym.sources.task_folders.folder import SETTINGS_FILE, FolderTask, strip_canary
from nemo_gym.sources.task_folders.ignoring import FolderLinkError
from nemo_gym.sources.task_folders.lint.findings import LintFinding, LintRule
from nemo_gym.sources.task_folders.settings import (
    MAIN_SERVICE,
    Artifact,
    EnvironmentSettings,
    StepSettings,
    TaskSettings,
    VerifierMode,
    list_artifacts,
)

_PROTECTED_LOGS = (PurePosixPath("/logs/verifier"), PurePosixPath("/logs/agent"))
_OLD_FIELDS = {TaskSettings: {"version": str}, EnvironmentSettings: {"memory": str, "storage": str}}


def list_source_files(root: Path) -> tuple[set[Path], list[LintFinding]]:
    """Return the regular files of a folder, and a finding for every link that leaves it and every special file."""
    files: set[Path] = set()
    findings: list[LintFinding] = []

    def visit(path: Path, ancestors: frozenset[Path]) -> None:
        try:
            resolved = path.resolve()
            mode = path.stat().st_mode
        except (OSError, RuntimeError):
            resolved, mode = root.parent, 0
        is_inside = resolved.is_relative_to(root) and resolved not in ancestors
        if is_inside and stat.S_ISREG(mode):
            files.add(path)
        elif is_inside and stat.S_ISDIR(mode):
            for child in path.iterdir():
                if child.name != ".git":
                    visit(child, ancestors | {resolved})
        else:
            message = "it is no regular file or folder of the task, or a cycle of links"
            findings.append(LintFinding(LintRule.INVALID_TASK_FILES, path, message))

    visit(root, frozenset())
    return files, findings


def find_unknown_fields(value: Any, annotation: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the fields of parsed TOML that no model has, each with a suggestion or an empty text."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        found = [
            list(find_unknown_fields(value, each, place)) for each in arguments if _can_hold(each, value)
        ]
        yield from min(found, key=len, default=[])
    elif origin is list and isinstance(value, list):
        for index, each in enumerate(value):
            yield from find_unknown_fields(each, arguments[0], f"{place}[{index}]")
    elif origin is dict and isinstance(value, dict):
        for key, each in value.items():
            yield from find_unknown_fields(each, arguments[1], f"{place}.{key}")
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel) and isinstance(value, dict):
        fields = {name: field.annotation for name, field in annotation.model_fields.items()}
        fields |= _OLD_FIELDS.get(annotation, {})
        for key, each in value.items():
            inner = f"{place}.{key}" if place else key
            if key in fields:
                yield from find_unknown_fields(each, fields[key], inner)
            else:
                near = difflib.get_close_matches(key, fields, n=1)
                yield inner, f"; did you mean {near[0]!r}?" if near else ""


def _can_hold(annotation: Any, value: Any) -> bool:
    """Return whether an alternative is for tables, or lists, as the value is one."""
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    if isinstance(value, dict):
        return is_model or get_origin(annotation) is dict
    return isinstance(value, list) and get_origin(annotation) is list


def lint_layout(task: FolderTask, files: Collection[Path]) -> Iterator[LintFinding]:
    """Yield what is missing in a folder, and artifacts that would overwrite logs."""

    def invalid(path: Path, message: str) -> LintFinding:
        return LintFinding(LintRule.INVALID_TASK_FILES, path, message)

    if not task.settings.environment.docker_image and not task.environment.is_dir():
        yield invalid(task.environment, "there is neither environment/ nor environment.docker_image")
    overlapping: set[str] = set()
    for index, step in enumerate(task.steps):
        instruction = task.folder(step) / "instruction.md"
        if not instruction.resolve().is_relative_to(task.root):
            yield invalid(task.root, "the files of a step stay in the task")
            continue
        if instruction not in files:
            yield invalid(instruction, "there is no instruction")
        elif not strip_canary(instruction.read_text(encoding="utf-8")).strip():
            yield invalid(instruction, "the instruction is empty")
        try:
            image = task.find_verifier_image(step)
        except FolderLinkError:
            yield invalid(task.root, "the files of a verifier stay in the task, without cycles")
            continue
        if image is not None:
            overlapping |= {*_find_log_overlaps(task, step, index)}
            if image.has_tests:
                continue
        if task.find_test(step, image) not in files:
            yield invalid(
                task.folder(step) / "tests", "there is no test script for the system of the verifier"
            )
    for field in sorted(overlapping):
        message = f"{field}: the artifact overlaps the logs of the verifier or of the agent"
        yield LintFinding(LintRule.ARTIFACT_LOG_OVERLAP, task.root / SETTINGS_FILE, message)


def _find_log_overlaps(task: FolderTask, step: StepSettings | None, index: int) -> Iterator[str]:
    entries = [(f"artifacts[{number}]", each) for number, each in enumerate(task.settings.artifacts)]
    if step is not None:
        entries += [
            (f"steps[{index}].artifacts[{number}]", each) for number, each in enumerate(step.artifacts)
        ]
    for field, entry in entries:
        source = PurePosixPath("/" + (entry.source if isinstance(entry, Artifact) else entry).lstrip("/"))
        if any(source.is_relative_to(logs) or logs.is_relative_to(source) for logs in _PROTECTED_LOGS):
            yield field


def lint_settings(task: FolderTask) -> Iterator[LintFinding]:
    """Yield settings that the rules of the format advise against."""
    file, settings = task.root / SETTINGS_FILE, task.settings
    of_task = set(_find_collisions(list_artifacts(settings)))
    for message in sorted(of_task):
        yield LintFinding(LintRule.OVERLAPPING_ARTIFACTS, file, message)
    for index, step in enumerate(settings.steps or ()):
        for message in sorted(set(_find_collisions(list_artifacts(settings, step))) - of_task):
            yield LintFinding(LintRule.OVERLAPPING_ARTIFACTS, file, f"steps[{index}].artifacts: {message}")
    if any(settings.find_mode(step) is VerifierMode.SHARED for step in task.steps):
        yield LintFinding(LintRule.SHARED_VERIFIER, file, "the verifier shares the sandbox of the agent")
    for index, each in enumerate(task.steps):
        user = settings.find_agent(each).user
        if user is None or str(user).split(":")[0] in ("0", "root"):
            field = "agent.user" if each is None else f"steps[{index}].agent.user"
            yield LintFinding(LintRule.ROOT_AGENT, file, f"{field}: the agent is root")


def _find_collisions(artifacts: list[Artifact]) -> Iterator[str]:
    for first, second in combinations(artifacts, 2):
        if first.overlaps(second) and not _covers(first, second):
            yield f"the artifacts {first.source!r} and {second.source!r} have one place; the second is left out"


def _covers(prior: Artifact, artifact: Artifact) -> bool:
    """Return whether an artifact brings another one with it, at the same place."""
    source, inner = PurePosixPath(prior.source), PurePosixPath(artifact.source)
    services = {each.service or MAIN_SERVICE for each in (prior, artifact)}
    if len(services) > 1 or not inner.is_relative_to(source):
        return False
    if source == inner and prior.place == artifact.place:
        return prior.exclude == artifact.exclude
    return not prior.exclude and artifact.place == prior.place / inner.relative_to(source)
