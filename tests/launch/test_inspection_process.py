"""Imports of implementations in a process of their own, and the faults found there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.small_gym import only, write_gym
from tests.launch.inspected import APP, WEATHER, loaded, problems, put_first


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_gym(tmp_path)


def test_what_an_implementation_prints_is_no_answer(folder: Path) -> None:
    put_first(folder, "print('{}', flush=True)\n")
    assert loaded(folder).warnings == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\nprint(undefined)\n", 2, "NameError: name 'undefined' is not defined"),
        ("def broken(:\n    pass\n", 1, "SyntaxError: invalid syntax"),
        ("import email.not_there\n", 1, "ModuleNotFoundError: No module named 'email.not_there'"),
        ("import json\njson.loads('[')\n", 2, "JSONDecodeError: Expecting value: line 1 column 2 (char 1)"),
        ("import sys\nsys.exit('no')\n", 2, "SystemExit: no"),
    ],
)
def test_code_that_fails_is_a_problem_with_its_place(
    folder: Path, text: str, line: int, message: str
) -> None:
    put_first(folder, text)
    assert only(problems(folder)) == (f"{APP}:{line}", f"The code fails: {message}.", "")


def test_a_package_that_is_not_installed_is_a_problem_with_a_remedy(folder: Path) -> None:
    put_first(folder, "import not_there.part\n")
    assert only(problems(folder)) == (
        f"{APP}:1",
        "The code fails: ModuleNotFoundError: No module named 'not_there'.",
        "Add not_there, or the package that has it, to requirements.txt of the server, or correct the name.",
    )


def test_a_fault_in_a_module_beside_the_implementation_is_found_there(folder: Path) -> None:
    (folder / "resources_servers/weather/scoring.py").write_text("\nnot_defined\n")
    put_first(folder, "import scoring\n")
    assert only(problems(folder))[0] == "resources_servers/weather/scoring.py:2"


def test_an_implementation_that_ends_its_process_takes_no_other_along(folder: Path) -> None:
    put_first(folder, "import os\nos._exit(7)\n")
    found = problems(folder, "+weather_agent.responses_api_agents.small_agent.max_stepz=3")
    assert [problem.message.split(":")[0] for problem in found] == [
        "The process ended with exit code 7 while the file was imported.",
        "weather_agent.responses_api_agents.small_agent.max_stepz",
    ]


def test_a_missing_requirement_leaves_options_unchecked_and_says_so_in_one_line(folder: Path) -> None:
    put_first(folder, "import not_there\n")
    (folder / "resources_servers/weather/requirements.txt").write_text("not-there>=2\n")
    assert loaded(folder, f"+{WEATHER}.zzz=1").warnings == [
        "the options of these servers are not checked: weather (its requirements are not met: not-there>=2 (not "
        "installed))"
    ]


def test_a_project_that_misses_a_package_leaves_options_unchecked(folder: Path) -> None:
    server = folder / "resources_servers" / "weather"
    (server / "pyproject.toml").write_text('[project]\nname = "weather"\ndynamic = ["dependencies"]\n')
    put_first(folder, "import a_package_that_is_not_there.part\n")
    (warning,) = loaded(folder).warnings
    assert "its requirements are not met: a_package_that_is_not_there" in warning


def test_a_module_that_ray_may_bring_leaves_options_unchecked(folder: Path) -> None:
    put_first(folder, "import not_there.part\n")
    (warning,) = loaded(folder, "+ray_runtime_env={pip: [not-there]}").warnings
    assert "this machine has no module not_there, which ray_runtime_env may bring" in warning


def test_another_fault_is_one_although_a_requirement_is_missing(folder: Path) -> None:
    put_first(folder, "undefined\n")
    (folder / "resources_servers/weather/requirements.txt").write_text("not-there>=2\n")
    assert only(problems(folder))[0] == f"{APP}:1"


def test_a_file_that_runs_no_server_of_ours_is_not_run(folder: Path) -> None:
    (folder / APP).write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    assert loaded(folder, f"+{WEATHER}.zzz=1").warnings == [
        "the options of these servers are not checked: weather (app.py does not end with `MyServer.run_webserver()`)"
    ]
    assert not (folder / "ran").exists()
