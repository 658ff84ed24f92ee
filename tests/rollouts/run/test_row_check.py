"""The rows of a dataset are checked by their environments before the first rollout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import ConfigError, InputError
from nemo_gym.names import TASKS_ROUTE
from nemo_gym.resources.task_check import TaskCheck, check_tasks
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.inspection import inspect
from nemo_gym.rollouts.plan.plan import Plan, PlanSettings
from nemo_gym.rollouts.plan.task_rows import SHOWN_FAULTS
from nemo_gym.rollouts.run import row_check
from nemo_gym.rollouts.run.row_check import (
    ask_servers,
    describe_fault,
    leave_out_unfit_rows,
    refuse_unfit_rows,
)
from nemo_gym.rows.models import BaseSeedSessionRequest
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
    caller, batches = open_shop(checks=checks, task_check=task_check)
    plan = PlanSettings(datasets=(DatasetFile(path, agent_name=agent),))
    try:
        await refuse_unfit_rows(ask_servers(caller), plan, SERVERS)
    except ConfigErrors as error:
        return [(str(each.where).rpartition("/")[2], each.message, each.remedy) for each in error.problems]
    return batches


def open_shop(*, checks: bool = True, task_check: Any = None) -> tuple[Caller, list[int]]:
    """Return a caller of the shop, and the sizes of the batches that the shop gets."""
    app, batches = FastAPI(), list[int]()

    async def tasks(request: Request) -> Any:
        given = orjson.loads(await request.body())["rows"]
        batches.append(len(given))
        if task_check:
            return {"faults": await task_check.find_faults(given), "notes": task_check.find_notes(given)}
        return {"faults": check_tasks([Task], given)}

    if checks:
        app.post(TASKS_ROUTE)(tasks)
    return Caller(Directory({"shop": ["http://shop"]}), InMemoryTransport({"http://shop": app})), batches


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
    monkeypatch.setattr(row_check, "_BATCH_ROWS", 3)
    monkeypatch.setattr(row_check, "MOST_CHECKED", 7)
    assert await refused(tmp_path / "t.jsonl", [{"code": "a"}] * 10) == [3, 3, 1]


async def test_a_file_of_faults_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_check, "_BATCH_ROWS", 10)
    different = [{"code": number} for number in range(500)]
    assert len(await refused(tmp_path / "t.jsonl", different)) == SHOWN_FAULTS


async def test_a_mistake_of_many_rows_is_one_problem(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [*[{}] * 600, {"code": "a"}, {}, {"code": 7}, {}]
    assert [(where, message) for where, message, _ in await refused(tmp_path / "t.jsonl", rows)] == [
        ("t.jsonl:1", "`shop` needs `code`: Field required. (lines 1-600,602,604)"),
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
        ("t.jsonl:2", "`shop`: no answer equals it.", "Write only the answer.")
    ]


def test_a_fault_of_the_whole_row_has_no_key() -> None:
    for message in ("`low` is above `high`", "`low` is above `high`."):
        assert describe_fault("shop", {}, {"key": "", "message": message}) == (
            "`shop` cannot read the row: `low` is above `high`.",
            "Correct the row.",
        )


async def test_unfit_rows_are_left_out_of_the_plan_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_check, "_BATCH_ROWS", 3)
    monkeypatch.setattr(row_check, "MOST_CHECKED", 2)
    path = tmp_path / "t.jsonl"
    store_rows(path, [{"code": "a"}, {"code": 1}, {"code": "b"}, {}, {"code": "c"}, {"code": None}])
    plan = PlanSettings(datasets=(DatasetFile(path, num_repeats=2, agent_name="clerk"),))
    left = await leave_out_unfit_rows(ask_servers(open_shop()[0]), plan, SERVERS)
    assert [place.line for place in left.unfit] == [2, 4, 6]
    inspection = inspect(left)
    assert (inspection.invalid, inspection.rollouts, inspection.agents["clerk"]) == (3, 6, 3)
    planned = [attempt.identity for attempt in Plan(left, numbers=inspection.numbers)]
    assert [(each.task, each.repeat) for each in planned] == [(0, 0), (0, 1), (2, 0), (2, 1), (4, 0), (4, 1)]
    assert "3 rows are malformed" in str(refusal(inspection.refuse_faults))


async def test_a_plan_whose_rows_all_fit_is_the_same(tmp_path: Path) -> None:
    store_rows(tmp_path / "t.jsonl", [{"code": "a"}])
    plan = PlanSettings(datasets=(DatasetFile(tmp_path / "t.jsonl", agent_name="clerk"),))
    assert await leave_out_unfit_rows(ask_servers(open_shop()[0]), plan, SERVERS) is plan


def refusal(work: Callable[[], None]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        work()
    return caught.value


class Desk(Shop):
    async def seed_session(self, body: BaseSeedSessionRequest) -> None: ...


async def test_notes_of_environments_are_told_once_with_their_lines(tmp_path: Path) -> None:
    path, check = tmp_path / "t.jsonl", TaskCheck(Desk(), None)
    store_rows(path, [{"code": "a", "best_rewrd": 3}, {"code": "a"}, {"code": "b", "best_rewrd": 2}])
    plan = PlanSettings(datasets=(DatasetFile(path, agent_name="clerk"),))
    assert await refuse_unfit_rows(ask_servers(open_shop(task_check=check)[0]), plan, SERVERS) == [
        f"{path}:1: nothing reads `best_rewrd`; `best_reward` is an optional key (`shop`) (lines 1,3)"
    ]
