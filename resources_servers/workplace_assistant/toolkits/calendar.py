"""The user's calendar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from resources_servers.workplace_assistant.tables import Row, Workplace
from resources_servers.workplace_assistant.tool import Toolkit
from resources_servers.workplace_assistant.toolkits import arguments

TOOLKIT = Toolkit("calendar")
_NOUN = "event"
_CHECKS: Mapping[str, Callable[[str], str]] = {
    "event_name": str.strip,
    "participant_email": arguments.address,
    "event_start": arguments.moment,
    "duration": arguments.minutes,
}


@TOOLKIT.tool(
    "One field of an event.",
    event_id="The id of the event, 8 digits",
    field="One of: event_id, event_name, participant_email, event_start, duration",
)
def get_event_information_by_id(workplace: Workplace, event_id: str, field: str) -> dict[str, Any]:
    return arguments.cell(workplace.events, event_id, field, _NOUN)


@TOOLKIT.tool(
    "Search events, the earliest first. An event is found when every word of the query is in its name or in the "
    "address of its participant.",
    query="Words to look for",
    time_min="Only events that end then or later, YYYY-MM-DD HH:MM:SS",
    time_max="Only events that start then or earlier, YYYY-MM-DD HH:MM:SS",
    page="Which page of the results, from 1",
    page_size="How many events a page",
)
def search_events(
    workplace: Workplace,
    query: str = "",
    time_min: str = "",
    time_max: str = "",
    page: int = 1,
    page_size: int = 5,
) -> dict[str, Any]:
    first = arguments.moment(time_min) if time_min else ""
    last = arguments.moment(time_max) if time_max else "9999"
    found = [
        row
        for row in workplace.events.rows()
        if row["event_start"] <= last
        and end_of(row) >= first
        and arguments.has_words(query, row["event_name"], row["participant_email"])
    ]
    found.sort(key=lambda row: str(row["event_start"]))
    return arguments.page_of(found, "events", page, page_size)


def end_of(event: Row) -> str:
    """Return the end of an event in the form of the tables."""
    start = datetime.fromisoformat(event["event_start"])
    return str(start + timedelta(minutes=int(event["duration"])))


@TOOLKIT.tool(
    "Create an event; the answer is its id.",
    event_name="The name of the event",
    participant_email="The address of who takes part",
    event_start="When it starts, YYYY-MM-DD HH:MM:SS",
    duration="How many minutes it takes",
)
def create_event(
    workplace: Workplace, event_name: str, participant_email: str, event_start: str, duration: str
) -> str:
    given = {
        "event_name": event_name,
        "participant_email": participant_email,
        "event_start": event_start,
        "duration": duration,
    }
    return workplace.events.insert({field: _CHECKS[field](value) for field, value in given.items()})


@TOOLKIT.tool("Delete an event.", event_id="The id of the event, 8 digits")
def delete_event(workplace: Workplace, event_id: str) -> str:
    arguments.existing(workplace.events, event_id, _NOUN)
    workplace.events.delete(event_id)
    return "The event has been deleted."


@TOOLKIT.tool(
    "Change a field of an event.",
    event_id="The id of the event, 8 digits",
    field="One of: event_name, participant_email, event_start, duration",
    new_value="What it should be",
)
def update_event(workplace: Workplace, event_id: str, field: str, new_value: str) -> str:
    arguments.existing(workplace.events, event_id, _NOUN)
    name = arguments.one_of(field, _CHECKS, "field that can be changed")
    workplace.events.update(event_id, name, _CHECKS[name](new_value))
    return "The event has been changed."
