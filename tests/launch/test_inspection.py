"""Implementations asked about their options, in the process that does so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.authoring.implementations import find_implementations
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch.inspection import inspector
from tests.config.small_gym import POLICY, load_in, only, problems_in, write_gym
from tests.launch.inspected import APP, LINE, WEATHER, loaded, problems, put_first


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_gym(tmp_path)


def test_an_unknown_option_stands_where_it_was_written_with_the_nearest_known_one(folder: Path) -> None:
    override = "+weather_agent.responses_api_agents.small_agent.max_stepz=3"
    assert only(problems(folder, override)) == (
        f"command line: {override}",
        "weather_agent.responses_api_agents.small_agent.max_stepz: small_agent has no option 'max_stepz'.",
        "Did you mean 'max_steps'?",
    )


def test_a_stale_option_in_a_file_of_another_package_is_a_warning(folder: Path) -> None:
    file = folder / "weather.yaml"
    file.write_text(file.read_text().replace("max_steps: 3", "max_steps: 3\n      group_size: 1"))
    warnings = loaded(folder).warnings
    assert any("small_agent has no option 'group_size'" in warning for warning in warnings)
    command = "++weather_agent.responses_api_agents.small_agent.group_size=1"
    assert "has no option 'group_size'" in only(problems(folder, command))[1]


def test_an_option_of_the_wrong_type_stands_where_it_was_written(folder: Path) -> None:
    (folder / "weather.yaml").write_text((folder / "weather.yaml").read_text().replace("3", "three"))
    where, message, _ = only(problems(folder))
    assert where == "weather.yaml:12:7"
    assert message.startswith(
        "weather_agent.responses_api_agents.small_agent.max_steps must be a whole number"
    )


def test_what_refers_to_something_missing_is_reported_once(folder: Path) -> None:
    with inspector() as inspect:
        found = problems_in(folder, LINE[0], *POLICY[1:], inspect=inspect)
    assert only(found)[1].startswith("policy_base_url is not set; ")


def test_a_command_has_the_modules_that_it_needs_next_after_the_inspection(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with inspector(needed_next=["colorsys"]) as inspect:
        load_in(folder, *LINE, inspect=inspect)
    assert "colorsys" in sys.modules


def test_no_code_of_an_author_runs_in_the_process_of_the_command(folder: Path) -> None:
    put_first(
        folder, f"import pathlib, os\npathlib.Path({str(folder / 'pid')!r}).write_text(str(os.getpid()))\n"
    )
    before = set(sys.modules)
    loaded(folder)
    assert (folder / "pid").read_text().isdecimal()
    assert not [name for name in set(sys.modules) - before if "weather" in name and "config" not in name]


def test_modules_of_two_servers_with_one_name_are_not_mixed_up(folder: Path) -> None:
    for place, option in (
        ("resources_servers/weather", "cities"),
        ("responses_api_agents/small_agent", "max_steps"),
    ):
        (folder / place / "scoring.py").write_text(f"option = {option!r}\n")
        app = folder / place / "app.py"
        app.write_text(f"import scoring\nassert scoring.option == {option!r}\n" + app.read_text())
    assert loaded(folder).warnings == []


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
