from __future__ import annotations

from pydantic import BaseModel, TypeAdapter

from nemo_gym.task_data import TaskDataValidator


class Answer(BaseModel):
    expected_answer: str


def test_rows_are_validated_one_by_one() -> None:
    validator = TaskDataValidator("math", TypeAdapter(Answer), "rows.jsonl")
    validator.validate_row(0, {"expected_answer": "4", "responses_create_params": {"input": "2 + 2"}})
    assert validator.report.clean
    validator.validate_row(1, {"verifier_metadata": {"expected_answer": 4}})
    validator.validate_row(2, {})
    assert (validator.report.rows, validator.report.error_rows) == (3, 2)
    assert not validator.report.clean
    head, wrong, missing = validator.report.summary().splitlines()
    assert head == "rows.jsonl (math): 2 of 3 rows have faults"
    assert wrong.strip() == "row 1: expected_answer: Input should be a valid string"
    assert missing.strip() == "row 2: expected_answer: Field required"


def test_a_summary_shows_the_first_faults() -> None:
    validator = TaskDataValidator("math", TypeAdapter(Answer), "rows.jsonl")
    for index in range(25):
        validator.validate_row(index, {})
    assert validator.report.summary().splitlines()[-1].strip() == "and 5 more"
