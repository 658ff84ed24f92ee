"""The expenses of a run as lines and table rows, of any manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nemo_gym.rollouts.output.expenses import describe_expenses, list_expenses, read_expenses, write_seconds
from tests.rollouts.expenses import SPENT, note_expenses
from tests.rollouts.stored_runs import scored_row, store


def test_a_run_is_told_by_model_environment_and_agent() -> None:
    assert list(describe_expenses(SPENT)) == [
        "spent: 2,540 tokens, cost 0.0423, in 0:01:15 of attempts",
        "  judge large (`judge_model`): 2 calls, 400 input (0 cached) and 100 output tokens, cost 0.0300",
        "  policy mock (`policy_model`): 4 calls, 2,000 input (80 cached) and 40 output tokens, cost 0.0123",
        "  environment mcqa: 2,040 tokens, cost 0.0123, in 0:00:15 of attempts",
        "  environment quiz: 500 tokens, cost 0.0300, in 0:01:00 of attempts",
    ], "the only agent adds nothing"


def test_a_run_without_prices_has_no_cost() -> None:
    models = [{**model, "cost": None} for model in SPENT["models"]]
    lines = list(describe_expenses({**SPENT, "models": models}))
    assert not any("cost" in line for line in lines)
    assert {part.cost for part in list_expenses({**SPENT, "models": models})} == {None}


def test_the_last_start_that_told_its_expenses_has_those_of_all() -> None:
    earlier: dict[str, Any] = {"spent": {**SPENT, "tokens": 1}}
    assert read_expenses([earlier, {"spent": SPENT}, {"end": None}]) == SPENT
    assert read_expenses([{"end": "complete"}]) is None
    assert read_expenses("no starts") is None


def test_a_manifest_of_another_form_is_read_as_far_as_it_goes() -> None:
    odd = {
        "models": [7, {"calls": "many", "input": 3}],
        "agents": {"a": None},
        "environments": [],
        "cost": "x",
    }
    whole, model, agent = list_expenses(odd)
    assert (whole.input, whole.calls, whole.cost, model.tokens, agent.tokens) == (3, 0, None, 3, 0)
    assert next(iter(describe_expenses(odd))) == "spent: 3 tokens, in 0:00:00 of attempts"


def test_hours_are_written_whole() -> None:
    assert write_seconds(3725.4) == "1:02:05"


def test_a_stored_run_can_be_given_expenses(tmp_path: Path) -> None:
    rows = note_expenses(store(tmp_path / "out.jsonl", [scored_row(0)]))
    starts = json.loads(rows.with_name("out_run.json").read_text())["starts"]
    assert read_expenses(starts) == SPENT
