"""The state of a session as JSON, taken between two deliveries.

    {"schema": 1, "options", "version", "next_number", "next_cursor", "known": {key: [digest, round]},
     "tasks": [{"key", "round", "digest", "row"}], "lines": [<line of a delivered group>], "counters", "ended",
     "curriculum", "lengths"}

`tasks` are those that have to be attempted again: what waits, what runs, and what is ready. One whose cancellation is
not delivered is `cancelled` again. A delivered group that is
not consumed is in `lines`, and is delivered again with the same cursor. Without rows, its task is in `tasks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson

from nemo_gym.failures import InputError
from nemo_gym.json_objects import member
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, TaskShaper
from nemo_gym.rollouts.sessions.book import GroupBook
from nemo_gym.rollouts.sessions.curriculum import CurriculumState
from nemo_gym.rollouts.sessions.deliveries import GroupDelivery, Known, SessionCounters
from nemo_gym.rollouts.sessions.groups import CancelReason, GroupPhase, Member, TaskGroup, Versions
from nemo_gym.rollouts.sessions.lengths import LengthEstimate
from nemo_gym.rollouts.sessions.session import RolloutSession
from nemo_gym.rollouts.sessions.staleness import Judged
from nemo_gym.rollouts.sessions.tasks import SubmittedTask

SCHEMA = 1


def write_state(session: RolloutSession, *, with_rows: bool) -> bytes:
    """Return the state of a session. `with_rows`: delivered groups with their rows, else their tasks."""
    book = session.book
    again: list[TaskGroup] = []
    lines: list[bytes] = []
    for cursor, delivery in book.delivered.items():
        if with_rows or delivery.group.cancelled is not None:
            lines.append(session.lines[cursor])
        else:
            again.append(delivery.group)
    again += [each for each in book.groups.values() if each.phase in (GroupPhase.RUNNING, GroupPhase.READY)]
    again += book.waiting
    return orjson.dumps(
        {
            "schema": SCHEMA,
            "options": session.options.model_dump(exclude_unset=True),
            "version": book.version,
            "next_number": book.next_number,
            "next_cursor": book.next_cursor,
            "known": {key: list(known) for key, known in book.known.items()},
            "tasks": [_write_task(each) for each in sorted(again, key=lambda each: each.number)],
            "lines": [orjson.Fragment(line) for line in lines],
            "counters": book.counters.to_json(),
            "ended": session.has_all_tasks,
            "curriculum": book.curriculum.to_json(),
            "lengths": book.lengths.to_json(),
        }
    )


def _write_task(group: TaskGroup) -> dict[str, Any]:
    task: SubmittedTask = group.task
    written: dict[str, Any] = {"key": task.key, "round": task.round, "digest": task.digest}
    if group.cancelled is not None:
        written["cancelled"] = group.cancelled.value
    return {**written, "row": orjson.Fragment(task.task.encoded)}


def restore_book(book: GroupBook, state: Mapping[str, Any], shaper: TaskShaper) -> dict[int, bytes]:
    """Put a state into an empty book. Returns the lines of its delivered groups by cursor.

    Raises `InputError` for a state that is damaged, or of another schema.
    """
    if state.get("schema") != SCHEMA:
        raise InputError(
            f"the state has schema {state.get('schema')!r}, and this gym reads {SCHEMA}",
            code="state_schema",
            status=422,
            remedy="Restore it with the version of the gym that wrote it.",
        )
    try:
        return _restore(book, state, shaper)
    except (KeyError, TypeError, ValueError, IndexError, FaultyRowError) as error:
        raise InputError(
            f"the state is damaged: {type(error).__name__}: {error}",
            code="state_damaged",
            status=422,
            remedy="Pass what GET /rollout-sessions/<id>/state answered, unchanged.",
        ) from error


def _restore(book: GroupBook, state: Mapping[str, Any], shaper: TaskShaper) -> dict[int, bytes]:
    book.version = int(state["version"])
    if "curriculum" in state:
        book.curriculum = CurriculumState.from_json(state["curriculum"])
    book.lengths = LengthEstimate.from_json(state.get("lengths") or {})
    book.next_number, book.next_cursor = int(state["next_number"]), int(state["next_cursor"])
    counters = dict(state["counters"])
    book.counters = SessionCounters(**{**counters, "cancelled": Counter(counters["cancelled"])})
    for each in state["tasks"]:
        task = SubmittedTask(each["key"], each["round"], each["digest"], shaper.shape_row(each["row"]))
        book.submit(task.key, task.round, task.digest, task)
        if "cancelled" in each:
            book.cancel(book.find_known(task.key), CancelReason(each["cancelled"]))
    book.counters.submitted = int(counters["submitted"])
    # Later, because the keys of `tasks` are among the known ones.
    book.known |= {key: Known(str(digest), int(round)) for key, (digest, round) in state["known"].items()}
    lines = {int(line["cursor"]): line for line in state["lines"]}
    for line in lines.values():
        book.add_delivered(_read_delivery(line, book.options.group_size))
    return {cursor: orjson.dumps(line) for cursor, line in lines.items()}


def _read_delivery(line: Mapping[str, Any], size: int) -> GroupDelivery:
    group = TaskGroup(line["number"], line["key"], line["round"], size, phase=GroupPhase.DELIVERED)
    group.cursor = line["cursor"]
    expected = int(line["expected_version"])
    if "cancelled" in line:
        group.cancelled = CancelReason(line["cancelled"])
        return GroupDelivery(group, Judged(()), expected, None)
    versions = member(line, "versions") or {}
    only = Member(0, Versions(int(versions["oldest"]), int(versions["newest"])), 0.0)
    return GroupDelivery(group, Judged((only,)), expected, None)
