"""Test runs by the commands, in a temporary project."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.authoring.implementations import Implementation
from nemo_gym.authoring.scaffold import scaffold
from nemo_gym.authoring.suites import TEST_REQUIREMENTS, SuiteResult, Verdict
from nemo_gym.cli.test import describe
from nemo_gym.launch.environments import Environments

GREEN = "from app import answer\n\n\nasync def test_answer():\n    assert answer() == 42\n"
RED = "import pytest\n\n\ndef test_one():\n    assert 1 == 2\n\n\n@pytest.mark.skip\ndef test_other(): ...\n"


def write_suite(
    project: Path, entrypoint: str, test: str | None, code: str = "def answer(): return 42\n"
) -> None:
    folder = project / entrypoint
    (folder / "tests").mkdir(parents=True)
    (folder / "app.py").write_text(code)
    if test is not None:
        (folder / "tests" / "test_app.py").write_text(test)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("project")
    scaffold("resources_servers/fresh", project)
    write_suite(project, "responses_api_agents/green", GREEN)
    write_suite(project, "responses_api_agents/red", RED)
    write_suite(project, "responses_api_agents/broken", "import not_there\n")
    write_suite(project, "responses_api_agents/empty", None)
    write_suite(project, "responses_api_agents/no_test_in_it", "x = 1\n")
    return project


def run(project: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = f"from nemo_gym.cli.{command} import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_every_suite_sees_its_own_app_and_every_kind_of_failure_exits_with_1(project: Path) -> None:
    names = ["green", "red", "broken", "empty", "no_test_in_it"]
    entrypoints = ["resources_servers/fresh", *(f"responses_api_agents/{name}" for name in names)]
    done = run(project, "test", f"+entrypoint=[{','.join(entrypoints)}]")
    assert done.returncode == 1
    *_, gold = lines = done.stdout.splitlines()
    assert "best reward" in gold, "the gold of the environment, which has one"
    assert [line.partition(" in ")[0] for line in lines[-7:-1]] == [
        "resources_servers/fresh: passed (5 passed)",
        "responses_api_agents/green: passed (1 passed)",
        "responses_api_agents/red: failed (1 failed, 1 skipped)",
        "responses_api_agents/broken: failed (1 failed)",
        "responses_api_agents/empty: no tests",
        "responses_api_agents/no_test_in_it: no tests",
    ]
    assert "assert 1 == 2" in done.stdout


def test_a_built_in_server_without_tests_says_where_they_are(tmp_path: Path) -> None:
    for root, hint in ((tmp_path, ""), (PARENT_DIR, " (tests of built-in servers are only in a checkout)")):
        folder = root / "resources_servers" / "an_empty_one"
        line = describe(
            SuiteResult(Implementation("resources_servers", folder.name, folder), Verdict.NO_TESTS)
        )
        assert line == f"resources_servers/an_empty_one: no tests in {folder / 'tests'}{hint}"


def test_an_unknown_implementation_exits_with_2(project: Path) -> None:
    done = run(project, "test", "+entrypoint=resources_servers/frish")
    assert done.returncode == 2
    assert "Did you mean 'fresh'?" in done.stderr


def test_all_suites_of_a_kind_are_reported_as_json(project: Path) -> None:
    done = run(
        project,
        "test_all",
        "+kind=responses_api_agents",
        "+jobs=2",
        "+json=true",
        "+pytest_args=[-k,answer or one]",
    )
    assert done.returncode == 1
    verdicts = {entry["entrypoint"]: entry["verdict"] for entry in json.loads(done.stdout)}
    assert verdicts["responses_api_agents/green"] == "passed"
    assert verdicts["responses_api_agents/red"] == "failed"
    assert verdicts["responses_api_agents/broken"] == "failed"
    assert verdicts["responses_api_agents/empty"] == "no tests"
    assert "responses_api_agents/simple_agent" in verdicts
    assert "assert 1 == 2" in done.stderr


def test_a_suite_with_unmet_requirements_gets_an_environment_with_pytest(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("a-package-that-does-not-exist==1\n")
    commands: list[list[str]] = []

    def install(command: list[str], directory: Path, log: Path) -> None:
        commands.append(command)
        if "venv" in command:
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            (Path(command[-1]) / "lib" / version / "site-packages").mkdir(parents=True)
            (Path(command[-1]) / "bin").mkdir()
            (Path(command[-1]) / "bin" / "python").symlink_to(sys.executable)

    announced: list[str] = []
    environments = Environments(announced.append, tmp_path / "venvs", install)  # type: ignore[arg-type]
    python = environments.choose(requirements, beside=TEST_REQUIREMENTS)
    assert python is not None
    listing = Path(python).parents[1].with_suffix(".txt").read_text().splitlines()
    assert {"a-package-that-does-not-exist==1", *TEST_REQUIREMENTS} <= set(listing)
    assert environments.choose(None, beside=TEST_REQUIREMENTS) is None, "the running interpreter has pytest"
    assert environments.choose(None, beside=["another-package-that-does-not-exist"]) is not None
    assert announced[-1].startswith("building an environment: another-package")
