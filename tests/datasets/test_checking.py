"""Rows are checked as in a run, and against the schema of the Responses API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.datasets.checking import check_line, read_rows
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, TaskShaper
from tests.datasets.rows import row, write


def faults_of(line: Any) -> list[str]:
    with pytest.raises(FaultyRowError) as caught:
        check_line(TaskShaper(agent_name="agent"), orjson.dumps(line))
    return [fault.field for fault in caught.value.faults]


def test_a_row_in_order_is_a_task() -> None:
    task = check_line(TaskShaper(agent_name="agent"), orjson.dumps(row("What?", temperature=3)))
    assert task.params == row("What?")["responses_create_params"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"input": "x", "temperatur": 1}, "responses_create_params.temperatur"),
        ({"input": "x", "max_output_tokens": "many"}, "responses_create_params.max_output_tokens"),
        ({"input": 7}, "responses_create_params.input"),
        ({"input": [{"role": "user", "content": 7}]}, "responses_create_params.input[0].content"),
    ],
)
def test_a_parameter_that_the_api_lacks_is_named(params: dict[str, Any], field: str) -> None:
    assert faults_of({"responses_create_params": params}) == [field]


def test_a_faulty_message_is_named_by_its_place_and_few_faults_are_reported() -> None:
    messages = [{"role": "user", "content": "x"}, *[{"role": "user", "content": 7}] * 20]
    fields = faults_of({"responses_create_params": {"input": messages}})
    assert fields == [f"responses_create_params.input[{index}].content" for index in range(1, 6)]


def test_rows_are_read_with_their_line_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", {"a": 1}, b"", {"a": 2})
    assert list(read_rows(path)) == [(1, {"a": 1}), (3, {"a": 2})]
    broken = write(tmp_path / "broken.jsonl", {"a": 1}, b"[]")
    with pytest.raises(ConfigError, match=rf"{broken}:2: the row must be a JSON object"):
        list(read_rows(broken))
