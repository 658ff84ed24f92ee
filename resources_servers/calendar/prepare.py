"""Generate tasks: conversations in which a user adds events and constraints, up to the assistant's next turn.

The events are placed first and the constraints are derived from them, so that every task has a solution.
"""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

from nemo_gym.datasets.making import generator_options, make_tasks, write_rows
from nemo_gym.rows.compose import compose_task_row
from resources_servers.calendar.scheduling import GRID, ExpectedEvent, schedule

DAY_START, DAY_END = 10 * 60, 16 * 60
INSTRUCTIONS = """\
You keep the user's calendar for one day. It is empty when the conversation starts.

- Every answer shows the whole calendar as a JSON list, one object an event, with the fields "event_id" (integer), \
"event_name" (string), "start_time" (24-hour "HH:MM") and "duration" (minutes, an integer).
- Events lie between 10am and 4pm and never overlap.
- What the user says about the time of an event holds for the rest of the conversation. "Before 11am" means that \
it ends by 11am, "after 2pm" that it starts at 2pm or later, "at 1pm" that it starts at 1pm.
- When a new wish doesn't fit, move other events, within their own constraints, without asking.
- Don't ask anything. Where the user talks about something else, answer kindly, and show the calendar."""

NAMES = (
    "Budget review", "Design critique", "Interview with a candidate", "Lunch with the new colleagues",
    "Call with the supplier", "Release planning", "Safety walk", "Reading group", "Dentist", "Mentoring hour",
    "Retrospective", "Visit to the archive", "Press briefing", "Choir rehearsal", "Roadmap workshop",
)  # fmt: skip
ADDING = (
    "Please add '{name}' for {duration} minutes (event id: {id}).",
    "I also need {duration} minutes for '{name}' (event id: {id}).",
    "Can you put '{name}' on my calendar? It takes {duration} minutes (event id: {id}).",
)
CONSTRAINING = {
    "before": "'{name}' (event id: {id}) has to be over by {first}.",
    "after": "I can't start '{name}' (event id: {id}) earlier than {first}.",
    "at": "'{name}' (event id: {id}) starts at {first} sharp.",
    "between": "Keep '{name}' (event id: {id}) between {first} and {second}, please.",
}
CHATTING = (
    "Thank you! The coffee here is finally drinkable, by the way.",
    "Good. I slept badly, so bear with me today.",
    "Lovely. My daughter starts school next week, can you believe it?",
)


def clock(minutes: int) -> str:
    """Return a time in 12-hour form: "10am", "2:15pm"."""
    hour, minute = divmod(minutes, 60)
    return f"{(hour - 1) % 12 + 1}{f':{minute:02}' if minute else ''}{'am' if hour < 12 else 'pm'}"


def lay_out(rng: random.Random) -> list[tuple[int, int]]:
    """Return start and duration of events that do not overlap, within the day."""
    events: list[tuple[int, int]] = []
    start = DAY_START
    while True:
        start += rng.choice((0, 0, GRID, 2 * GRID))
        duration = rng.choice((30, 45, 60, 75, 90))
        if start + duration > DAY_END:
            rng.shuffle(events)
            return events
        events.append((start, duration))
        start += duration


def constrain(start: int, duration: int, rng: random.Random) -> tuple[str, list[int]]:
    """Return a constraint that the event meets: its kind and its times."""
    slack = rng.choice((0, GRID, 3 * GRID))
    first, last = max(start - slack, DAY_START), min(start + duration + slack, DAY_END)
    kind = rng.choice(tuple(CONSTRAINING))
    return kind, {"before": [last], "after": [first], "at": [start], "between": [first, last]}[kind]


class Turn(NamedTuple):
    """A user message, its event, and the event's constraint from then on."""

    said: str
    event: int | None = None
    constraint: str | None = None


def make_task(index: int, rng: random.Random) -> dict[str, Any]:
    layout = lay_out(rng)
    names = rng.sample(NAMES, len(layout))
    turns: list[Turn] = []
    for number, (start, duration) in enumerate(layout):
        fields = {"name": names[number], "duration": duration, "id": number}
        turns.append(Turn(rng.choice(ADDING).format(**fields), number))
        if rng.random() < 0.75:
            kind, times = constrain(start, duration, rng)
            shown = dict(zip(("first", "second"), map(clock, times), strict=False))
            words = f"{kind} {' and '.join(shown.values())}"
            turns.append(Turn(CONSTRAINING[kind].format(**fields, **shown), number, words))
        if rng.random() < 0.15:
            turns.append(Turn(rng.choice(CHATTING)))
    return _row(index, turns[: rng.randint(3, len(turns))], layout, names)


def _row(index: int, turns: list[Turn], layout: list[tuple[int, int]], names: list[str]) -> dict[str, Any]:
    messages = [{"role": "system", "content": INSTRUCTIONS}]
    expected: dict[int, ExpectedEvent] = {}
    starts: dict[int, int] = {}
    for said, event, constraint in turns:
        if messages[-1]["role"] == "user":
            messages.append({"role": "assistant", "content": calendar(starts, expected, names)})
        messages.append({"role": "user", "content": said})
        if event is not None:
            expected[event] = ExpectedEvent(
                event_id=event,
                duration=layout[event][1],
                constraint=constraint,
                min_time="10:00",
                max_time="16:00",
            )
            scheduled = schedule(list(expected.values()), starts)
            assert scheduled is not None, "the layout itself is one"
            starts = scheduled
    state = {str(number): wanted.model_dump() for number, wanted in expected.items()}
    return compose_task_row(messages, row_id=index, exp_cal_state=state)


def calendar(starts: dict[int, int], expected: dict[int, ExpectedEvent], names: list[str]) -> str:
    """Return a calendar in the form of an answer."""
    return json.dumps(
        [
            {
                "event_id": number,
                "event_name": names[number],
                "start_time": f"{start // 60:02}:{start % 60:02}",
                "duration": expected[number].duration,
            }
            for number, start in sorted(starts.items(), key=lambda event: event[1])
        ]
    )


def main(arguments: list[str] | None = None) -> None:
    options = generator_options(__doc__, arguments)
    write_rows(make_tasks(make_task, options), options.output)


if __name__ == "__main__":
    main()
