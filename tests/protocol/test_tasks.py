"""Tasks made of rows."""

from __future__ import annotations

import pytest

from nemo_gym.protocol.episodes import TaskId
from nemo_gym.protocol.single_agent_turn import SingleAgentTurnRequest
from nemo_gym.protocol.tasks import materialize_task

ROW = {
    "problem_id": "p1",
    "instance_id": "i1",
    "answer": "42",
    "responses_create_params": {"input": "question"},
    "agent_ref": {"name": "agent"},
    "task_source": "quiz",
    "skills_ref": "skills",
    "_ng_task_index": 7,
}


def test_a_task_has_the_rows_own_name_and_the_verifiers_fields() -> None:
    task = materialize_task(ROW, taskset="quiz")
    assert task.task_id == TaskId(taskset="quiz", task_id="p1")
    assert task.task_input["task_data"] == {"problem_id": "p1", "instance_id": "i1", "answer": "42"}
    request = SingleAgentTurnRequest.model_validate({"episode_id": {"rollout_id": "7-0"}, "task": task})
    assert request.task.task_input.responses_create_params.input == "question"


@pytest.mark.parametrize(("named", "expected"), [({}, "7"), ({"task_id": 0}, "0")])
def test_a_task_without_a_name_is_named_by_its_index(named: dict[str, int], expected: str) -> None:
    row = {"_ng_task_index": 7, "responses_create_params": {"input": "x"}, **named}
    assert materialize_task(row, taskset="quiz").task_id.task_id == expected


def test_a_row_for_an_environment_server_with_its_own_input_keeps_its_fields() -> None:
    assert materialize_task({"scene": 3}, taskset="sim", task_index=2).task_input == {"scene": 3}


def test_a_row_without_any_name_is_refused() -> None:
    with pytest.raises(ValueError, match="has no name"):
        materialize_task({"responses_create_params": {"input": "x"}}, taskset="quiz")
