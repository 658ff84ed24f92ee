"""The described members are those of the rows that the gym writes."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import orjson
import pytest

from nemo_gym.failures import Boundary, Failure
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, Failed, Scored, classify
from nemo_gym.rows import keys
from nemo_gym.rows.compose import assign_agent, compose_scored_row, compose_task_row
from nemo_gym.rows.fields import FIELDS, Form
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.parts import append_spent
from nemo_gym.rows.schema import build_row_schema
from nemo_gym.rows.verdict import EndReason

TASK = assign_agent(compose_task_row("What?", metadata={"answer": 4}), "mine")
PLANNED = PlannedAttempt(RolloutId(3, 1), "mine", RolloutId(3, 1).head() + orjson.dumps(TASK)[1:])
RESPONSE: dict[str, Any] = {"output": [], "usage": {"output_tokens": 3}}


def scored_row() -> dict[str, Any]:
    score, notes = {"reward": 0.5}, {"note": 1}
    row = compose_scored_row(
        orjson.loads(PLANNED.body()),
        score,
        notes,
        response=RESPONSE,
        end_reason=EndReason.MAX_STEPS,
        timing={"seed_session": 0.1, "act": 1.0, "verify": 0.2, "total": 1.3},
    )
    encoded = append_spent(orjson.dumps(row), b'{"policy_model":[1,5,0,3]}')
    result = classify(PLANNED, AgentAnswer(row, encoded))
    assert isinstance(result, Scored)
    written: dict[str, Any] = orjson.loads(result.line)
    return written


def failure_row() -> dict[str, Any]:
    failed = Failed(
        Failure(Boundary.ENGINE, "gone", "the engine is gone"), "engine:gone", {"response": RESPONSE}
    )
    row: dict[str, Any] = orjson.loads(failed.to_line(PLANNED, terminal=True, failed_at=5.0))
    return row


ROWS = {Form.TASK: orjson.loads(PLANNED.row), Form.SCORED: scored_row(), Form.FAILURE: failure_row()}


@pytest.mark.parametrize("form", Form)
def test_a_row_fits_the_schema_of_its_form(form: Form) -> None:
    validator = jsonschema_rs.validator_for(build_row_schema(form))
    assert [error.message for error in validator.iter_errors(ROWS[form])] == []
    known = {field.key for field in FIELDS if form in field.forms}
    assert {key for key in ROWS[form] if key.startswith("_ng_")} <= known


@pytest.mark.parametrize(("form", "other"), [(Form.SCORED, Form.FAILURE), (Form.FAILURE, Form.SCORED)])
def test_a_row_does_not_fit_the_schema_of_another_form(form: Form, other: Form) -> None:
    assert not jsonschema_rs.validator_for(build_row_schema(other)).is_valid(ROWS[form])


def test_the_forms_of_every_member_are_known() -> None:
    for field in FIELDS:
        assert field.required <= field.forms, field.key
        assert field.forms, field.key


def test_an_end_reason_is_one_of_the_schema() -> None:
    reasons = build_row_schema(Form.SCORED)["properties"][keys.END_REASON_KEY]["enum"]
    assert reasons == list(EndReason)
