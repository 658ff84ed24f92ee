"""Implementations asked about their options, in the process that does so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.authoring.implementations import find_implementations
from nemo_gym.config.loading import GlobalConfig
from nemo_gym.config.problems import Problem
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch.inspection import inspector
from tests.config.small_gym import POLICY, load_in, only, problems_in, write_gym

LINE = ("+config_paths=[weather.yaml,model.yaml]", *POLICY)
WEATHER = "weather.resources_servers.weather"
APP = "resources_servers/weather/app.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_gym(tmp_path)


def loaded(folder: Path, *overrides: str) -> GlobalConfig:
    with inspector() as inspect:
        return load_in(folder, *LINE, *overrides, inspect=inspect)


def problems(folder: Path, *overrides: str) -> list[Problem]:
    with inspector() as inspect:
        return problems_in(folder, *LINE, *overrides, inspect=inspect)


def put_first(folder: Path, text: str) -> None:
    """Begin the environment's `app.py` with `text`."""
    app = folder / APP
    app.write_text(text + app.read_text())


def test_an_unknown_option_stands_where_it_was_written_with_the_nearest_known_one(folder: Path) -> None:
    override = "+weather_agent.responses_api_agents.small_agent.max_stepz=3"
    assert only(problems(folder, override)) == (
        f"command line: {override}",
        "weather_agent.responses_api_agents.small_agent.max_stepz: small_agent has no option 'max_stepz'.",
        "Did you mean 'max_steps'?",
    )


def test_an_option_of_the_wrong_type_stands_where_it_was_written(folder: Path) -> None:
    (folder / "weather.yaml").write_text((folder / "weather.yaml").read_text().replace("3", "three"))
    where, message, _ = only(problems(folder))
    assert where == "weather.yaml:12:7"
    assert message.startswith("weather_agent.responses_api_agents.small_agent.max_steps must be a valid int")


def test_what_refers_to_something_missing_is_reported_once(folder: Path) -> None:
    with inspector() as inspect:
        found = problems_in(folder, LINE[0], *POLICY[1:], inspect=inspect)
    assert "`${policy_base_url}`" in only(found)[1]


def test_no_code_of_an_author_runs_in_the_process_of_the_command(folder: Path) -> None:
    put_first(
        folder, f"import pathlib, os\npathlib.Path({str(folder / 'pid')!r}).write_text(str(os.getpid()))\n"
    )
    loaded(folder)
    assert (folder / "pid").read_text().isdecimal()
    assert not [name for name in sys.modules if "weather" in name and "config" not in name]


def test_modules_of_two_servers_with_one_name_are_not_mixed_up(folder: Path) -> None:
    for place, option in (
        ("resources_servers/weather", "cities"),
        ("responses_api_agents/small_agent", "max_steps"),
    ):
        (folder / place / "scoring.py").write_text(f"option = {option!r}\n")
        app = folder / place / "app.py"
        app.write_text(f"import scoring\nassert scoring.option == {option!r}\n" + app.read_text())
    assert loaded(folder).warnings == []


def test_what_an_implementation_prints_is_no_answer(folder: Path) -> None:
    put_first(folder, "print('{}', flush=True)\n")
    assert loaded(folder).warnings == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\nprint(undefined)\n", 2, "NameError: name 'undefined' is not defined"),
        ("def broken(:\n    pass\n", 1, "SyntaxError: invalid syntax"),
        ("import not_there\n", 1, "ModuleNotFoundError: No module named 'not_there'"),
        ("import json\njson.loads('[')\n", 2, "JSONDecodeError: Expecting value: line 1 column 2 (char 1)"),
        ("import sys\nsys.exit('no')\n", 2, "SystemExit: no"),
    ],
)
def test_code_that_fails_is_a_problem_with_its_place(
    folder: Path, text: str, line: int, message: str
) -> None:
    put_first(folder, text)
    assert only(problems(folder)) == (f"{APP}:{line}", f"The code fails: {message}.", "")


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


def test_another_fault_is_one_although_a_requirement_is_missing(folder: Path) -> None:
    put_first(folder, "undefined\n")
    (folder / "resources_servers/weather/requirements.txt").write_text("not-there>=2\n")
    assert only(problems(folder))[0] == f"{APP}:1"


def test_a_secret_in_an_error_of_an_implementation_is_hidden(folder: Path) -> None:
    put_first(folder, "raise ValueError('the key sk-canary-123 is bad')\n")
    assert only(problems(folder))[1] == "The code fails: ValueError: the key **** is bad."


def test_a_validator_of_an_author_that_fails_is_a_fault_of_its_code(folder: Path) -> None:
    app = folder / APP
    validator = "    @field_validator('cities')\n    def check(cls, value):\n        return value.missing\n"
    text = app.read_text().replace("    cities: int = 1\n", f"    cities: int = 1\n{validator}")
    app.write_text(f"from pydantic import field_validator\n{text}")
    where, message, _ = only(problems(folder, f"+{WEATHER}.cities=2"))
    assert where == f"{APP}:9"
    assert message == "The code fails: AttributeError: 'int' object has no attribute 'missing'."


def test_a_file_that_runs_no_server_of_ours_is_not_run(folder: Path) -> None:
    (folder / APP).write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    assert loaded(folder, f"+{WEATHER}.zzz=1").warnings == [
        "the options of these servers are not checked: weather (app.py does not end with `MyServer.run_webserver()`)"
    ]
    assert not (folder / "ran").exists()


def test_every_implementation_of_the_repository_can_be_asked() -> None:
    ours = [each for each in find_implementations(PARENT_DIR) if each.folder.is_relative_to(PARENT_DIR)]
    servers = [
        ServerInstance(
            name=f"server_{number}",
            kind=each.kind,
            implementation=each.name,
            directory=each.folder,
            entrypoint="app.py",
            config={"entrypoint": "app.py", "zzz": 1},
            where=None,
        )
        for number, each in enumerate(ours)
    ]
    data = {each.name: {each.kind: {each.implementation: each.config}} for each in servers}
    with inspector() as inspect:
        said = inspect(servers, {**data, "default_host": "127.0.0.1"})
    assert len(servers) > 20
    for server in servers:
        inspection = said[server.name]
        assert (inspection.code_fault, inspection.unchecked) == (None, None), server.implementation
        assert f"{server.implementation} has no option 'zzz'." in str(inspection.faults)
