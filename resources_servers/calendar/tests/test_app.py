"""Gold, no-op and tricky answers to scheduling conversations."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from resources_servers.calendar.app import CalendarResourcesServer, last_list_of_objects
from resources_servers.calendar.prepare import calendar, make_task
from resources_servers.calendar.prepare import main as prepare
from resources_servers.calendar.scheduling import ExpectedEvent, schedule
from tests.serving.environments import text

FOLDER = Path(__file__).parents[1]
SHARED = FOLDER.parents[2] / "shared" / "data" / "environment_examples"


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def expected_event(event_id: int, constraint: str | None = None, duration: int = 60) -> dict[str, Any]:
    window = {"min_time": "10:00", "max_time": "16:00"}
    return {"event_id": event_id, "duration": duration, "constraint": constraint, **window}


def event(event_id: Any, start: Any, duration: Any = 60, name: Any = "Something") -> dict[str, Any]:
    return {"event_id": event_id, "event_name": name, "start_time": start, "duration": duration}


ROW = {
    "responses_create_params": {"input": "Please plan my day."},
    "exp_cal_state": {"0": expected_event(0, "before 1pm"), "1": expected_event(1, "at 2pm")},
}
GOLD = [event(0, "11:00"), event(1, "14:00")]


def verify(row: dict[str, Any], answer: str) -> dict[str, Any]:
    response = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [text(answer)]}
    client = TestClient(CalendarResourcesServer.standalone().setup_webserver())
    scored: dict[str, Any] = client.post("/verify", json={**row, "response": response}).json()
    return scored


def gold_for(row: dict[str, Any]) -> str:
    events = {
        int(number): ExpectedEvent.model_validate(wanted) for number, wanted in row["exp_cal_state"].items()
    }
    starts = schedule(list(events.values()))
    assert starts is not None
    return calendar(starts, events, [f"Event {number}" for number in range(max(events, default=0) + 1)])


@pytest.mark.parametrize(
    "row", rows_of(FOLDER / "data" / "example.jsonl"), ids=lambda row: f"row {row['id']}"
)
def test_a_calendar_that_meets_everything_scores_one(row: dict[str, Any]) -> None:
    scored = verify(row, f"Here you are:\n```json\n{gold_for(row)}\n```")
    assert (scored["reward"], scored["reason"], scored["detail"]) == (1.0, "pass", "")
    assert scored["exp_cal_state"] == row["exp_cal_state"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "no_answer"),
        (f"<think>{json.dumps(GOLD)}</think>", "no_answer"),
        (f"<think>{json.dumps(GOLD)}", "no_answer"),
        ("Everything is planned.", "no_calendar"),
        ("[]", "wrong_events"),
        ([GOLD[0]], "wrong_events"),
        ([*GOLD, event(2, "15:00")], "wrong_events"),
        ([*GOLD, event(1, "15:00")], "wrong_events"),
        ([GOLD[0], event(2, "14:00")], "wrong_events"),
        ([event(0, "12:00"), event(1, "12:30")], "conflict"),
        ([event(0, "12:15"), GOLD[1]], "constraint_violated"),
        ([GOLD[0], event(1, "14:15")], "constraint_violated"),
        ([event(0, "9:00"), GOLD[1]], "constraint_violated"),
        ([event(0, "11:00", 30), GOLD[1]], "constraint_violated"),
        ([event(0, "11am"), GOLD[1]], "malformed_event"),
        ([event(0, "11:00", 0), event(1, "14:00", 0)], "malformed_event"),
        ([event(0, "11:00", name=""), GOLD[1]], "malformed_event"),
        ([event(0, "99:00"), GOLD[1]], "malformed_event"),
        ([{"event_id": 0}, GOLD[1]], "malformed_event"),
        (f"{json.dumps(GOLD)} or rather {json.dumps(GOLD[:1])}", "wrong_events"),
    ],
)
def test_no_ops_and_tricks_get_nothing(answer: Any, reason: str) -> None:
    said = answer if isinstance(answer, str) else json.dumps(answer)
    scored = verify(ROW, said)
    assert (scored["reward"], scored["reason"]) == (0.0, reason)
    assert scored["detail"]


def test_the_last_calendar_of_an_answer_counts() -> None:
    draft = json.dumps([event(0, "15:00"), event(1, "15:00")])
    assert verify(ROW, f"Not {draft} but {json.dumps(GOLD)} [1]")["reward"] == 1.0


@pytest.mark.parametrize(
    ("answer", "reward"), [("You're welcome!", 1.0), ("Sure. []", 1.0), (json.dumps(GOLD), 0.0), ("", 0.0)]
)
def test_where_nothing_was_planned_no_event_may_be_made_up(answer: str, reward: float) -> None:
    assert verify({**ROW, "exp_cal_state": {}}, answer)["reward"] == reward


@pytest.mark.parametrize(
    ("change", "param"), [({"constraint": "whenever"}, "constraint"), ({"min_time": "early"}, "min_time")]
)
def test_a_row_that_cannot_be_graded_is_named(change: dict[str, Any], param: str) -> None:
    row = {**ROW, "exp_cal_state": {"0": {**expected_event(0), **change}}}
    error = verify(row, "[]")["error"]
    assert (error["code"], error["param"]) == ("invalid_request", f"exp_cal_state.0.{param}")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ('[{"a": 1}] and [{"b": 2}]', [{"b": 2}]),
        ('[{"a": 1}] (conflicts: [])', [{"a": 1}]),
        ('[1, 2] [{"a": 1}, 2] {"a": []}', []),
        ('[{"a": 1}', None),
        ("[citation needed]", None),
    ],
)
def test_lists_of_objects_are_found_in_prose(said: str, found: Any) -> None:
    assert last_list_of_objects(said) == found


def test_hostile_brackets_are_read_in_time() -> None:
    started = time.monotonic()
    assert last_list_of_objects("[" * 50_000) is None
    assert last_list_of_objects('[{"a":' * 20_000) is None
    assert time.monotonic() - started < 20


def test_the_ecosystems_rows_can_be_scored() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    for row in rows_of(SHARED / "calendar.jsonl"):
        assert verify(row, gold_for(row))["reward"] == 1.0
        assert verify(row, "[]")["reward"] == 0.0


def test_a_conversation_shows_calendars_that_meet_what_was_said_so_far() -> None:
    for seed in range(10):
        row = make_task(0, random.Random(seed))
        last = row["responses_create_params"]["input"][-1]
        assert last["role"] == "user"
        assert verify(row, gold_for(row))["reward"] == 1.0


def test_the_examples_are_what_prepare_makes(tmp_path: Path) -> None:
    prepare(["--output", str(tmp_path / "rows.jsonl")])
    assert (tmp_path / "rows.jsonl").read_bytes() == (FOLDER / "data" / "example.jsonl").read_bytes()
