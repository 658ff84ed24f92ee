"""The rows of a dataset are checked by their environments before the first rollout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import InputError
from nemo_gym.names import TASKS_ROUTE
from nemo_gym.resources.task_check import TaskCheck, check_tasks
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import PlanSettings
from nemo_gym.rollouts.plan.task_rows import SHOWN_FAULTS
from nemo_gym.rollouts.run import _row_check
from nemo_gym.rollouts.run._row_check import refuse_unfit_rows
from nemo_gym.transport import Caller, Directory, InMemoryTransport

SERVERS: dict[str, Any] = {
    "clerk": {"responses_api_agents": {"simple_agent": {"resources_server": {"name": "shop"}}}},
    "robot": {"responses_api_agents": {"external_agent": {"resources_server": {"name": "shop"}}}},
    "shop": {"resources_servers": {"shop": {}}},
}


class Task(BaseModel):
    code: str


def store_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = [{"responses_create_params": {"input": "x"}, **row} for row in rows]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


async def refused(
    path: Path,
    rows: list[dict[str, Any]],
    *,
    checks: bool = True,
    agent: str = "clerk",
    task_check: Any = None,
) -> list[Any]:
    """The problems of rows, and the sizes of the batches in which they were sent."""
    store_rows(path, rows)
    app, batches = FastAPI(), []

    async def tasks(request: Request) -> Any:
        given = orjson.loads(await request.body())["rows"]
        batches.append(len(given))
        return {"faults": await task_check.find_faults(given) if task_check else check_tasks([Task], given)}

    if checks:
        app.post(TASKS_ROUTE)(tasks)
    caller = Caller(Directory({"shop": ["http://shop"]}), InMemoryTransport({"http://shop": app}))
    plan = PlanSettings(datasets=(DatasetFile(path, agent_name=agent),))
    try:
        await refuse_unfit_rows(caller, plan, SERVERS)
    except ConfigErrors as error:
        return [(str(each.where).rpartition("/")[2], each.message, each.remedy) for each in error.problems]
    return batches


async def test_every_fault_has_its_file_line_key_and_value(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"code": "a"}, {"code": 123}, {}, {"cod": "a"}]
    assert await refused(tmp_path / "t.jsonl", rows) == [
        (
            "t.jsonl:2",
            "`code` is 123, which `shop` cannot read: Input should be a valid string.",
            "Correct `code` of the row.",
        ),
        ("t.jsonl:3", "`shop` needs `code`: Field required.", "Add `code` to the row."),
        ("t.jsonl:4", "`shop` needs `code`: Field required.", "Rename `cod` to `code`."),
    ]


async def test_rows_are_sent_in_batches_and_up_to_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_row_check, "_BATCH_ROWS", 3)
    monkeypatch.setattr(_row_check, "MOST_CHECKED", 7)
    assert await refused(tmp_path / "t.jsonl", [{"code": "a"}] * 10) == [3, 3, 1]


async def test_a_file_of_faults_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_row_check, "_BATCH_ROWS", 10)
    different = [{"code": number} for number in range(500)]
    assert len(await refused(tmp_path / "t.jsonl", different)) == SHOWN_FAULTS


async def test_a_mistake_of_many_rows_is_one_problem(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [*[{}] * 600, {"code": "a"}, {}, {"code": 7}, {}]
    assert [(where, message) for where, message, _ in await refused(tmp_path / "t.jsonl", rows)] == [
        ("t.jsonl:1-600,602,604", "`shop` needs `code`: Field required."),
        ("t.jsonl:603", "`code` is 7, which `shop` cannot read: Input should be a valid string."),
    ]


async def test_an_environment_that_cannot_check_rows_is_accepted(tmp_path: Path) -> None:
    assert await refused(tmp_path / "t.jsonl", [{}], checks=False) == []


async def test_agents_that_open_no_session_with_the_row_are_left_out(tmp_path: Path) -> None:
    assert await refused(tmp_path / "t.jsonl", [{}], agent="robot") == []


class Shop:
    async def verify(self, body: Task) -> None: ...

    async def check_task(self, body: Task) -> None:
        if body.code.startswith("####"):
            raise InputError("no answer equals it", code="x", param="code", remedy="Write only the answer.")


async def test_a_task_that_the_environment_refuses_has_its_file_line_and_remedy(tmp_path: Path) -> None:
    check = TaskCheck(Shop(), Shop().check_task)
    assert await refused(tmp_path / "t.jsonl", [{"code": "a"}, {"code": "#### a"}], task_check=check) == [
        ("t.jsonl:2", "`shop`: no answer equals it", "Write only the answer.")
    ]
