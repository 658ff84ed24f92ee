"""Findings of whole folders. `make test-folders` compares thousands with the format's own linter."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.sources.task_folders.lint.findings import DEFAULT_RULES, LintRule
from nemo_gym.sources.task_folders.lint.linting import lint_folder
from tests.sources.task_folders.task_maker import OFFLINE, make_task

SEPARATE = f'{OFFLINE}[verifier]\nenvironment_mode = "separate"\n'


def lint(folder: Path) -> list[str]:
    return [
        f"{each.rule}:{each.line or 0}"
        for each in lint_folder(folder, DEFAULT_RULES - {LintRule.SHARED_VERIFIER})
    ]


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ("x = ", "invalid-task-config:0"),
        ("[agent]\ntimeout_sec = []\n", "invalid-task-config:0"),
        ("[agent]\ntimeout = 3\n", "unknown-config-field:0"),
        (f'artifacts = ["/logs/agent/x"]\n{SEPARATE}', "artifact-log-overlap:0"),
        (
            '[[artifacts]]\nsource = "/a"\ndestination = "x"\n[[artifacts]]\nsource = "/b"\ndestination = "x"\n',
            "overlapping-artifacts:0",
        ),
    ],
)
def test_settings_have_their_rule(settings: str, rule: str, tmp_path: Path) -> None:
    assert lint(make_task(tmp_path / "task", settings)) == [rule]


@pytest.mark.parametrize(
    ("file", "text", "rules"),
    [
        (
            "tests/test.sh",
            "true\npip install pytest\n",
            ["unpinned-python-dependency:2", "verifier-runtime-install:2"],
        ),
        ("tests/test.sh", "curl -o x https://x.org/y\n", ["verifier-network-download:1"]),
        ("environment/Dockerfile", "FROM debian\nCOPY tests/test.sh /\n", ["agent-image-test-leak:2"]),
        ("instruction.md", "<!-- canary -->\n", ["invalid-task-files:0"]),
    ],
)
def test_files_have_their_rules(file: str, text: str, rules: list[str], tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task", SEPARATE)
    (folder / file).write_text(text)
    assert lint(folder) == rules


def test_a_finding_is_a_line_with_its_place(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task", without=("task.toml",))
    (finding,) = lint_folder(folder)
    assert finding.describe(folder) == "task.toml: the folder has no task.toml [invalid-task-files]"
