from __future__ import annotations

import statistics as exact
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.datasets._statistics import DatasetStatistics, summarize
from nemo_gym.rollouts.plan.task_rows import Task
from nemo_gym.rows.forms import TaskRow


def task(row: dict[str, Any], agent: str = "agent") -> Task:
    return Task(agent, TaskRow(row), orjson.dumps(row))


@given(st.lists(st.integers(0, 20), min_size=2, max_size=30), st.integers(0, 30))
def test_the_merged_summary_equals_that_of_all_numbers(numbers: list[int], cut: int) -> None:
    parts = [DatasetStatistics(), DatasetStatistics()]
    for place, number in enumerate(numbers):
        parts[place >= cut].add(task({"responses_create_params": {"input": [{}] * number}}))
    parts[0].merge(parts[1])
    summary = parts[0].to_json()["messages"]
    assert (summary["count"], summary["min"], summary["max"]) == (len(numbers), min(numbers), max(numbers))
    assert summary["mean"] == pytest.approx(exact.mean(numbers), abs=1e-6)
    assert summary["std"] == pytest.approx(exact.stdev(numbers), abs=1e-5)


def test_of_nothing_there_is_nothing_to_say() -> None:
    assert summarize([]) == {"count": 0}


def test_rows_are_counted_by_field() -> None:
    counted = DatasetStatistics()
    message = {"role": "user", "content": [{"type": "input_text", "text": "abc"}, {"type": "input_image"}]}
    counted.add(task({"responses_create_params": {"input": "hello"}, "answer": 1}))
    counted.add(
        task(
            {"responses_create_params": {"input": [message], "tools": [{}, {}], "temperature": 1}},
            agent="other",
        )
    )
    counted.add(
        task({"responses_create_params": {"input": [{"type": "function_call_output", "output": "xy"}]}})
    )
    shown = counted.to_json()
    assert shown["rows"] == 3
    assert shown["agents"] == {"agent": 2, "other": 1}
    assert shown["fields"] == {"answer": 1}
    assert shown["parameters"] == {"temperature": 1, "tools": 1}
    assert shown["tools"]["max"] == 2
    assert (shown["input_characters"]["min"], shown["input_characters"]["max"]) == (2, 5)
