"""All findings of a task folder."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

from pydantic import ValidationError

from nemo_gym.sources.task_folders.folder import SETTINGS_FILE, FolderTask
from nemo_gym.sources.task_folders.ignoring import FileFilter, FolderLinkError
from nemo_gym.sources.task_folders.lint.commands import lint_dockerfile, lint_image, lint_script
from nemo_gym.sources.task_folders.lint.findings import LintFinding, LintRule
from nemo_gym.sources.task_folders.lint.layout import (
    find_unknown_fields,
    lint_layout,
    lint_settings,
    list_source_files,
)
from nemo_gym.sources.task_folders.settings import EnvironmentSettings, TaskSettings


def lint_folder(root: Path, rules: Collection[LintRule] | None = None) -> list[LintFinding]:
    """Return the findings of a folder, by place; of all rules, or of those given."""
    root = root.resolve()
    files, findings = list_source_files(root)
    file = root / SETTINGS_FILE
    if file not in files:
        findings.append(LintFinding(LintRule.INVALID_TASK_FILES, file, "the folder has no task.toml"))
    else:
        findings += _lint_file(root, files)
    kept = [each for each in findings if rules is None or each.rule in rules]
    return sorted(kept, key=lambda each: (str(each.path), each.line or 0, each.rule, each.message))


def _lint_file(root: Path, files: Collection[Path]) -> Iterator[LintFinding]:
    file = root / SETTINGS_FILE
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        yield LintFinding(LintRule.INVALID_TASK_CONFIG, file, f"it is not TOML: {error}")
        return
    for field, suggestion in find_unknown_fields(data, TaskSettings):
        yield LintFinding(LintRule.UNKNOWN_CONFIG_FIELD, file, f"the field {field!r} is unknown{suggestion}")
    try:
        settings = TaskSettings.model_validate(copy.deepcopy(data))
    except ValidationError as error:
        for each in error.errors(include_input=False, include_context=False, include_url=False):
            place = ".".join(map(str, each["loc"])) or "task.toml"
            yield LintFinding(LintRule.INVALID_TASK_CONFIG, file, f"{place}: {each['msg']}")
        return
    task = FolderTask(root, settings, FileFilter(root))
    yield from lint_layout(task, files)
    yield from lint_settings(task)
    yield from _lint_sources(task, files)


def _lint_sources(task: FolderTask, files: Collection[Path]) -> Iterator[LintFinding]:
    for field, environment in _list_environments(task.settings):
        if environment.docker_image:
            yield from lint_image(
                environment.docker_image, task.root / SETTINGS_FILE, f"{field}.docker_image"
            )
    dockerfiles = {task.environment / "Dockerfile": task.settings.environment.os}
    scripts: dict[Path, bool] = {}
    for step in task.steps:
        try:
            image = task.find_verifier_image(step)
        except FolderLinkError:
            continue  # the layout says so
        if image is not None:
            dockerfiles[image.folder / "Dockerfile"] = image.settings.os
        test = task.find_test(step, image)
        if test in files and test is not None and test.suffix == ".sh":
            scripts[test] = scripts.get(test, False) or image is not None
        solution = task.find_solution(step) or task.find_solution(None)
        if solution in files and solution is not None and solution.suffix == ".sh":
            scripts.setdefault(solution, False)
    for path, system in dockerfiles.items():
        if path in files:
            is_agents = path.parent == task.environment
            yield from lint_dockerfile(path, is_agents=is_agents, has_shell=system == "linux")
    for script, is_separate in scripts.items():
        yield from lint_script(script, is_separate=is_separate)


def _list_environments(settings: TaskSettings) -> Iterator[tuple[str, EnvironmentSettings]]:
    yield "environment", settings.environment
    if settings.verifier.environment is not None:
        yield "verifier.environment", settings.verifier.environment
    for index, step in enumerate(settings.steps or ()):
        if step.verifier.environment is not None:
            yield f"steps[{index}].verifier.environment", step.verifier.environment
