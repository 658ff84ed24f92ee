"""Rows are checked by the models of environments that do not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch.task_checks import TaskChecks

APP = """
import helper_of_this_folder
from pydantic import field_validator
from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer

print("a note of the author")


class Request(BaseVerifyRequest):
    FIELD: str

    @field_validator("FIELD")
    @classmethod
    def parse(cls, value):
        int(value)
        return value


class Server(SimpleResourcesServer):
    DEF verify(self, body: Request) -> BaseVerifyResponse:
        raise NotImplementedError


if __name__ == "__main__":
    Server.run_webserver()
"""
PARAMS = {"responses_create_params": {"input": "x"}}


def write_environment(folder: Path, field: str, *, handler: str = "async def", helper: bool = True) -> None:
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(APP.replace("FIELD", field).replace("DEF", handler))
    if helper:
        (folder / "helper_of_this_folder.py").touch()


def build_agent(environment: str, kind: str = "simple_agent") -> dict[str, Any]:
    reference = {"type": "resources_servers", "name": environment}
    return {"responses_api_agents": {kind: {"resources_server": reference}}}


@pytest.fixture
def checks(tmp_path: Path) -> Iterator[TaskChecks]:
    folder = tmp_path / "resources_servers"
    write_environment(folder / "one", "expected_answer")
    write_environment(folder / "two", "gold", handler="def")
    write_environment(folder / "broken", "gold", helper=False)
    servers = [
        ServerInstance(name, "resources_servers", name, folder / name, "app.py", {}, None)
        for name in ("one", "two", "broken")
    ]
    data: dict[str, Any] = {name: {"resources_servers": {name: {}}} for name in ("one", "two", "broken")}
    data |= {f"agent_{name}": build_agent(name) for name in ("one", "two", "broken")}
    data |= {"robot": build_agent("one", "external_agent")}
    with TaskChecks(servers, data) as checks:
        yield checks


def test_the_schema_beside_the_environment_s_file_counts_too(checks: TaskChecks, tmp_path: Path) -> None:
    schema = tmp_path / "resources_servers" / "one" / "task_data.py"
    schema.write_text("from pydantic import BaseModel\n\n\nclass TaskData(BaseModel):\n    level: int\n")
    rows: list[dict[str, Any]] = [
        {**PARAMS, "expected_answer": "1", "level": 3},
        {**PARAMS, "expected_answer": "1", "verifier_metadata": {"level": "high"}},
        {**PARAMS, "level": 3},
    ]
    faults = checks.find_faults("agent_one", rows)
    assert sorted(faults) == [1, 2]
    assert "`level`" in faults[1][0]
    assert '"high"' in faults[1][0]
    assert [message for message in faults[2] if "level" in message] == []


async def test_a_schema_that_cannot_be_used_is_a_note(checks: TaskChecks, tmp_path: Path) -> None:
    (tmp_path / "resources_servers" / "one" / "task_data.py").write_text("import a_package_that_is_not_there")
    answer = await checks.ask("one", [orjson.dumps({**PARAMS, "expected_answer": "1"})])
    assert answer is not None
    assert answer["faults"] == []
    [note] = answer["notes"]
    assert "task_data.py gives no schema of task rows" in note["message"]


def test_each_agent_s_rows_are_checked_by_its_environment(
    checks: TaskChecks, capfd: pytest.CaptureFixture[str]
) -> None:
    rows: list[dict[str, Any]] = [
        {**PARAMS, "expected_answer": "1"},
        PARAMS,
        {**PARAMS, "expected_answr": "1"},
        {**PARAMS, "expected_answer": "x"},
        {**PARAMS, "gold": "1"},
    ]
    missing = "`one` needs `expected_answer`: Field required."
    assert checks.find_faults("agent_one", rows) == {
        1: [f"{missing} Add `expected_answer` to the row."],
        2: [f"{missing} Rename `expected_answr` to `expected_answer`."],
        3: [
            "`expected_answer` is \"x\", which `one` cannot read: invalid literal for int() with base 10: 'x'. "
            "Correct `expected_answer` of the row."
        ],
        4: [f"{missing} Add `expected_answer` to the row."],
    }
    assert list(checks.find_faults("agent_two", rows)) == [0, 1, 2, 3]
    assert checks.unchecked == {}
    assert capfd.readouterr().out == ""


def test_the_author_s_own_check_refuses_rows_of_an_environment_that_does_not_run(
    checks: TaskChecks, tmp_path: Path
) -> None:
    app = tmp_path / "resources_servers" / "one" / "app.py"
    check = (
        "    async def check_task(self, body: BaseRunRequest) -> None:\n"
        "        raise invalid_row(f'{self.config.name}: no options', param='options')\n\n"
    )
    imports = (
        "from nemo_gym.base_resources_server import BaseRunRequest\n"
        "from nemo_gym.verify.task_rows import invalid_row\n"
    )
    app.write_text(imports + app.read_text().replace("    async def verify", check + "    async def verify"))
    (told,) = checks.find_faults("agent_one", [{**PARAMS, "expected_answer": "1"}])[0]
    assert "one: no options" in told
    assert checks.environments == {"one"}


@pytest.mark.parametrize("bug", ["raise SystemExit('no')", "import os; os._exit(3)"])
def test_an_environment_that_ends_its_process_is_named(checks: TaskChecks, tmp_path: Path, bug: str) -> None:
    (tmp_path / "resources_servers" / "one" / "helper_of_this_folder.py").write_text(bug)
    assert checks.find_faults("agent_one", [PARAMS]) == {}
    assert "`one` cannot be imported here" in checks.unchecked["agent_one"]
    assert checks.environments == frozenset()


def test_rows_that_no_environment_has_checked_are_named_with_the_reason(checks: TaskChecks) -> None:
    for agent in ("agent_broken", "someone", "two"):
        assert checks.find_faults(agent, [{}]) == {}
    assert "`broken` cannot be imported here" in checks.unchecked["agent_broken"]
    assert "helper_of_this_folder" in checks.unchecked["agent_broken"]
    assert "no such agent" in checks.unchecked["someone"]
    assert checks.unchecked["two"] == checks.unchecked["someone"]


def test_an_agent_that_opens_no_session_with_the_row_is_not_checked_in_a_run_either(
    checks: TaskChecks,
) -> None:
    assert checks.find_faults("robot", [{}]) == {}
    assert checks.unchecked == {}
