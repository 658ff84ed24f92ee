"""Task rows are checked by the models of an environment's handlers."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import Request
from pydantic import BaseModel, model_validator

from nemo_gym.base_resources_server import BaseSeedSessionRequest, BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.resources.task_check import check_tasks, find_task_models

PARAMS = {"input": "What?"}


class Task(BaseSeedSessionRequest):
    code: str
    limits: tuple[int, ...] = ()


class Scored(BaseVerifyRequest):
    answer: int


class Checked(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def check_order(self) -> Checked:
        if self.low > self.high:
            raise ValueError("`low` is above `high`")
        return self


class Lockbox:
    async def seed_session(self, request: Request, body: Task) -> None: ...

    def verify(self, body: Scored) -> BaseVerifyResponse:
        raise NotImplementedError


class Plain:
    async def seed_session(self, body: dict[str, Any]) -> None: ...


def faults_of(row: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    found = check_tasks(find_task_models(Lockbox()), [row])
    return {fault["key"]: (fault["message"], fault.get("value")) for fault in found}


def test_the_models_of_seed_session_and_verify_are_found() -> None:
    assert find_task_models(Lockbox()) == [Task, Scored]
    assert find_task_models(Plain()) == find_task_models(object()) == []


def test_a_row_that_fits_has_no_fault() -> None:
    assert faults_of({"responses_create_params": PARAMS, "code": "123", "answer": 3, "more": {}}) == {}


def test_missing_and_wrong_fields_are_named_with_their_values() -> None:
    assert faults_of({"responses_create_params": PARAMS, "code": 123, "limits": [1, "x"]}) == {
        "code": ("Input should be a valid string", "123"),
        "limits.1": ("Input should be a valid integer, unable to parse string as an integer", '"x"'),
        "answer": ("Field required", None),
    }


def test_rules_of_the_author_and_every_row_count() -> None:
    rows = [{"low": 1, "high": 2}, {"low": 3, "high": 2}, {"low": 1}]
    found = check_tasks([Checked], rows)
    assert [(fault["row"], fault["key"], fault["message"]) for fault in found] == [
        (1, "", "`low` is above `high`"),
        (2, "high", "Field required"),
    ]


@pytest.mark.parametrize("row", [None, 3, [], "x"])
def test_a_row_of_another_type_is_a_fault(row: object) -> None:
    assert check_tasks([Checked], [row])


def test_a_long_value_is_cut() -> None:
    (fault,) = check_tasks([Checked], [{"low": "x" * 500, "high": 1}])
    assert len(fault["value"]) == 80
