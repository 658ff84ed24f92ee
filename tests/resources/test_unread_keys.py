"""Keys that nothing reads: request parameters beside the request, and misspelled optional keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from nemo_gym.resources.task_check import TaskCheck
from nemo_gym.resources.unread_keys import DeclaredKeys
from nemo_gym.rows.models import BaseRunRequest, BaseSeedSessionRequest, BaseVerifyRequest

PARAMS: dict[str, Any] = {"responses_create_params": {"input": "x"}}
TOOL = {"type": "function", "name": "look", "parameters": {}}
SHARED = Path(__file__).parents[3] / "shared" / "data" / "environment_examples"


class Task(BaseVerifyRequest):
    expected_answer: str
    extraction_mode: str = "boxed"
    unit: str | None = Field(None, alias="physical_unit")


class Open(Task):
    model_config = ConfigDict(extra="allow")


class Unwrapped(Task):
    @model_validator(mode="before")
    @classmethod
    def unwrap(cls, row: Any) -> Any:
        return row


class WithTools(Task):
    tools: list[dict[str, Any]] | None = None


def fault_keys(row: dict[str, Any], *models: type[BaseModel]) -> list[str]:
    return [
        fault["key"] for fault in DeclaredKeys([*(models or [Task]), BaseSeedSessionRequest]).find_faults(row)
    ]


def notes(row: dict[str, Any], *models: type[BaseModel]) -> list[str]:
    return list(DeclaredKeys([*(models or [Task]), BaseSeedSessionRequest]).find_notes(row))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tools", [TOOL]),
        ("tools", [{"type": "function", "function": {"name": "look"}}]),
        ("tool_choice", "required"),
        ("tool_choice", {"type": "function", "name": "look"}),
        ("temperature", 0.7),
        ("temperature", 0),
        ("top_p", 0.95),
        ("max_output_tokens", 4096),
        ("parallel_tool_calls", False),
        ("max_tool_calls", 3),
        ("top_logprobs", 5),
    ],
)
def test_a_request_parameter_beside_the_request_is_refused_with_its_place(key: str, value: object) -> None:
    row = {**PARAMS, "expected_answer": "1", key: value}
    (fault,) = DeclaredKeys([Task]).find_faults(row)
    assert (fault["key"], fault["remedy"]) == (key, f"Move it: responses_create_params.{key}.")
    assert fault_keys({**row, "responses_create_params": {"input": "x", key: value}}) == []


@pytest.mark.parametrize(
    "own",
    [{"temperature": 300}, {"temperature": "hot"}, {"top_p": 5}, {"tools": ["hammer"]}, {"tools": []}, {"tools": None},
     {"max_output_tokens": "many"}, {"metadata": {}}, {"text": "a"}, {"prompt": "a"}, {"instructions": []},
     {"input": "a"}, {"image": "a"}],
)  # fmt: skip
def test_things_of_the_dataset_are_accepted(own: dict[str, Any]) -> None:
    row = {**PARAMS, "expected_answer": "1", **own}
    assert fault_keys(row) == notes(row) == []


def test_an_environment_that_may_read_it_gets_it() -> None:
    row = {**PARAMS, "expected_answer": "1", "tools": [TOOL]}
    assert fault_keys(row, WithTools) == notes(row, WithTools) == []
    for model in (Open, Unwrapped):
        assert fault_keys(row, model) == []
        assert notes(row, model) == [
            "`tools` is beside `responses_create_params`, where no model request reads it"
        ]
    assert list(DeclaredKeys([Task], are_all=False).find_faults(row)) == []


@pytest.mark.parametrize(
    ("key", "meant"),
    [("extract_mode", "extraction_mode"), ("Extraction_mode", "extraction_mode"), ("best_rewrd", "best_reward"),
     ("physical_units", "physical_unit"), ("verifier_metdata", "verifier_metadata"), ("agent_reff", "agent_ref")],
)  # fmt: skip
def test_a_key_close_to_an_optional_one_is_noted(key: str, meant: str) -> None:
    assert notes({**PARAMS, "expected_answer": "1", key: "x"}) == [
        f"nothing reads `{key}`; `{meant}` is an optional key"
    ]


def test_a_key_close_to_one_that_the_row_has_is_the_dataset_s_own() -> None:
    assert (
        notes({**PARAMS, "expected_answer": "1", "expected_answers": ["1"], "id": 3, "domain": "math"}) == []
    )


class Server:
    async def seed_session(self, body: BaseSeedSessionRequest) -> None: ...

    async def verify(self, body: Task) -> None: ...


class Stepped(Server):
    async def reset(self, metadata: dict[str, Any]) -> None: ...

    async def step(self, metadata: dict[str, Any]) -> None: ...


class Raw(Server):
    async def seed_session(self, body: dict[str, Any]) -> None: ...  # type: ignore[override]


async def test_an_environment_checks_its_rows_by_all_of_its_handlers() -> None:
    row = {**PARAMS, "expected_answer": "1", "temperature": 0.5, "extract_mode": "boxed"}
    check = TaskCheck(Server(), None)
    assert [(fault["row"], fault["key"]) for fault in await check.find_faults([row, None])] == [
        (0, "temperature"),
        (1, ""),
    ]
    assert [note["row"] for note in check.find_notes([None, row])] == [1]
    for server in (Stepped(), Raw()):
        assert await TaskCheck(server, None).find_faults([row]) == []


@pytest.mark.skipif(not SHARED.is_dir(), reason="the rows of others are not here")
def test_no_row_of_others_is_refused() -> None:
    rows = [
        json.loads(line) for path in sorted(SHARED.glob("*.jsonl")) for line in path.read_text().splitlines()
    ]
    assert len(rows) > 300
    assert [fault for row in rows for fault in DeclaredKeys([BaseRunRequest]).find_faults(row)] == []
