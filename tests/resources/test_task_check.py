"""Task rows are checked by the models of an environment's handlers."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from fastapi import Request
from pydantic import BaseModel, model_validator

from nemo_gym.base_resources_server import BaseSeedSessionRequest, BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.failures import InputError
from nemo_gym.resources.task_check import TaskCheck, check_tasks, find_task_models

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


class Guess(BaseModel):
    low: int
    answers: str | list[str] = []
    either: int | bool | None = None


class Careful(Lockbox):
    async def check_task(self, body: Guess) -> None:
        if body.low > 9:
            raise InputError("`low` is above 9", code="x", param="low", remedy="Lower it.")


async def test_the_author_s_own_check_refuses_rows_that_its_model_reads() -> None:
    check = TaskCheck(Plain(), Careful().check_task)
    assert await check.find_faults([{"low": 3}, {"low": 10}]) == [
        {"row": 1, "key": "low", "message": "`low` is above 9", "remedy": "Lower it."}
    ]
    assert await TaskCheck(Plain(), None).find_faults([{"low": 10}]) == []


async def test_a_row_that_the_models_refuse_is_not_checked_further() -> None:
    found = await TaskCheck(Lockbox(), Careful().check_task).find_faults([{"low": 10}])
    assert {fault["message"] for fault in found} == {"Field required"}


@pytest.mark.parametrize("value", [3, {"a": 1}, True])
def test_a_union_is_one_field_without_the_names_of_its_branches(value: object) -> None:
    (fault,) = check_tasks([Guess], [{"low": 1, "answers": value}])
    assert (fault["key"], fault["message"]) == ("answers", "Input should be a valid string or a valid array")
    (fault,) = check_tasks([Guess], [{"low": 1, "answers": ["a", value]}])
    assert fault["key"] == "answers.1"
    (fault,) = check_tasks([Guess], [{"low": 1, "either": "much"}])
    assert (fault["key"], fault["value"]) == ("either", '"much"')


class Dated(BaseVerifyRequest):
    first: str
    last: str

    @model_validator(mode="after")
    def check_dates(self) -> Dated:
        if date.fromisoformat(self.first) > date.fromisoformat(self.last):
            raise ValueError("`first` is after `last`")
        return self


class Answered(BaseVerifyRequest):
    answer: int

    @model_validator(mode="after")
    def check_answer(self) -> Answered:
        if not self.response.output_text.startswith("The answer"):
            raise ValueError("there is no answer")
        return self


class Counted(BaseVerifyRequest):
    answer: int

    @model_validator(mode="after")
    def check_answer(self) -> Counted:
        assert self.response.output[7]
        return self


def test_a_validator_of_the_whole_verify_request_sees_every_row() -> None:
    dates = [("2024-03-01", "2024-03-05"), ("2024-03-05", "2024-03-01"), ("March", "2024-03-01")]
    rows = [{"responses_create_params": PARAMS, "first": first, "last": last} for first, last in dates]
    found = [(fault["row"], fault["key"], fault["message"]) for fault in check_tasks([Dated], rows)]
    assert found == [(1, "", "`first` is after `last`"), (2, "", "Invalid isoformat string: 'March'")]


def test_a_row_is_not_refused_for_the_answer_that_stands_in() -> None:
    row = {"responses_create_params": PARAMS, "answer": 1}
    assert check_tasks([Answered, Counted], [row]) == []
    (fault,) = check_tasks([Answered], [row | {"answer": "x"}])
    assert fault["key"] == "answer"
