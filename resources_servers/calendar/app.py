"""Scheduling over several turns: the calendar in the last answer must meet every constraint of the conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.verify.answers import final_text
from resources_servers.calendar.scheduling import Event, ExpectedEvent, Time, minutes_of, overlapping


class Verdict(StrEnum):
    """The verdict on an answer; only `PASS` is rewarded."""

    PASS = "pass"
    NO_ANSWER = "no_answer"
    NO_CALENDAR = "no_calendar"
    """The answer has no JSON list of objects."""
    MALFORMED_EVENT = "malformed_event"
    WRONG_EVENTS = "wrong_events"
    """Events are missing, invented or listed twice."""
    CONFLICT = "conflict"
    CONSTRAINT_VIOLATED = "constraint_violated"


class CalendarResourcesServerConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS


class CalendarRunRequest(BaseRunRequest):
    exp_cal_state: dict[str, ExpectedEvent]
    """The events requested so far, by event id; empty when the conversation has requested none."""


class CalendarVerifyRequest(CalendarRunRequest, BaseVerifyRequest):
    pass


class CalendarVerifyResponse(CalendarVerifyRequest, BaseVerifyResponse):
    reason: Verdict
    detail: str
    """A readable description of the error; empty for `PASS`."""


class CalendarResourcesServer(SimpleResourcesServer):
    config: CalendarResourcesServerConfig
    reads_tokens: ClassVar[bool] = False

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: CalendarVerifyRequest
    ) -> CalendarVerifyResponse:
        expected = {event.event_id: event for event in body.exp_cal_state.values()}
        verdict, detail = grade(final_text(body.response), expected)
        return CalendarVerifyResponse(
            **dict(body), reward=float(verdict is Verdict.PASS), reason=verdict, detail=detail
        )


class AnsweredEvent(BaseModel):
    """The required form of an event in an answer."""

    model_config = ConfigDict(extra="ignore")

    event_id: int
    event_name: str = Field(min_length=1)
    start_time: Time = Field(pattern=r"^\d{1,2}:\d{2}$")
    duration: int = Field(gt=0)


_EVENTS = TypeAdapter(list[AnsweredEvent])


def grade(answer: str, expected: Mapping[int, ExpectedEvent]) -> tuple[Verdict, str]:
    """Return the verdict on an answer and a description of its error."""
    if not answer:
        return Verdict.NO_ANSWER, "the answer is empty"
    listed = last_list_of_objects(answer)
    if listed is None and expected:
        return Verdict.NO_CALENDAR, "the answer has no JSON list of events"
    try:
        events = _EVENTS.validate_python(listed or [])
    except ValidationError as error:
        first = error.errors()[0]
        return Verdict.MALFORMED_EVENT, f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return _compare(
        [Event(event.event_id, minutes_of(event.start_time), event.duration) for event in events], expected
    )


def _compare(events: list[Event], expected: Mapping[int, ExpectedEvent]) -> tuple[Verdict, str]:
    ids = sorted(event.event_id for event in events)
    if ids != sorted(expected):
        return Verdict.WRONG_EVENTS, f"expected the events {sorted(expected)}, found {ids}"
    conflict = overlapping(events)
    if conflict is not None:
        return Verdict.CONFLICT, f"the events {conflict[0]} and {conflict[1]} overlap"
    for event in events:
        wanted = expected[event.event_id]
        if event.duration != wanted.duration:
            return (
                Verdict.CONSTRAINT_VIOLATED,
                f"event {event.event_id} should take {wanted.duration} minutes",
            )
        if not wanted.allows(event.start):
            asked = wanted.constraint or f"between {wanted.min_time} and {wanted.max_time}"
            return Verdict.CONSTRAINT_VIOLATED, f"event {event.event_id} is not {asked}"
    return Verdict.PASS, ""


_LIST_START = re.compile(r"\[\s*(?=[{\]])")
_DECODER = json.JSONDecoder()
_MOST_LISTS = 100
"""Maximum number of candidate lists, from the end: a text of brackets has one at every character."""


def last_list_of_objects(text: str) -> list[Any] | None:
    """Return the last JSON list of objects in the text; an empty list when all lists are empty; None without a list."""
    is_any_empty = False
    starts = [match.start() for match in _LIST_START.finditer(text)]
    for start in reversed(starts[-_MOST_LISTS:]):
        try:
            value, _ = _DECODER.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            continue
        if value and all(isinstance(member, dict) for member in value):
            return list(value)
        is_any_empty = is_any_empty or not value
    return [] if is_any_empty else None


if __name__ == "__main__":
    CalendarResourcesServer.run_webserver()
