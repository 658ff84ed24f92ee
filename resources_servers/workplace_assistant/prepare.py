"""Generate tasks on the generated tables, each with the calls that solve it.

Every kind of task is a function that draws the details of one, or gives up where the tables have none that is clear.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from itertools import cycle, islice
from typing import Any, NamedTuple

from nemo_gym.datasets.making import generator_options, write_rows
from nemo_gym.rows.compose import compose_task_row
from resources_servers.workplace_assistant.generator import NOW, generate, name_of
from resources_servers.workplace_assistant.tables import Row, Workplace
from resources_servers.workplace_assistant.toolkits import TOOLS
from resources_servers.workplace_assistant.toolkits.customers import PRODUCTS
from resources_servers.workplace_assistant.toolkits.projects import BOARDS

INSTRUCTIONS = (
    "You are the assistant of Sam, who works at Harborlight. It is {now:%A}, {now.day} {now:%B %Y}, {now:%H:%M}. "
    "Do with the tools what Sam asks, and nothing beyond it; don't ask back. Meetings lie between 9:00 and 18:00. "
    "When you are done, say in one sentence what you did."
)
_FEW = range(1, 6)
"""Maximum number of rows that a task changes."""


class Call(NamedTuple):
    name: str
    arguments: dict[str, str]


class Task(NamedTuple):
    category: str
    request: str
    calls: list[Call]


def spoken(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B}"


def last_email_from(workplace: Workplace, person: str) -> Row | None:
    received = [
        row
        for row in workplace.emails.rows()
        if row["sender/recipient"] == person and row["inbox/outbox"] == "inbox"
    ]
    return max(received, key=lambda row: str(row["sent_datetime"]), default=None)


def reply_to_last_email(workplace: Workplace, rng: random.Random) -> Task | None:
    person = rng.choice(workplace.addresses)
    email = last_email_from(workplace, person)
    body = rng.choice(
        ("Thank you, I will look at it on Monday.", "Agreed, please go ahead.", "Let us talk tomorrow.")
    )
    if email is None:
        return None
    request = f"Answer the last email that {name_of(person)} sent me with '{body}'"
    return Task("email", request, [Call("email_reply_email", {"email_id": email["email_id"], "body": body})])


def forward_last_email(workplace: Workplace, rng: random.Random) -> Task | None:
    sender, reader = rng.sample(workplace.addresses, 2)
    email = last_email_from(workplace, sender)
    if email is None:
        return None
    request = f"Forward the last email I got from {name_of(sender)} to {name_of(reader)}."
    return Task(
        "email", request, [Call("email_forward_email", {"email_id": email["email_id"], "recipient": reader})]
    )


def plan_meeting(workplace: Workplace, rng: random.Random) -> Task | None:
    person = rng.choice(workplace.addresses)
    day = NOW.date() + timedelta(days=rng.randint(1, 14))
    hour, minutes = rng.randint(9, 16), rng.choice(("30", "45", "60"))
    name = rng.choice(("Contract check", "Kick-off", "Coffee", "Numbers of the week"))
    start = f"{day} {hour:02}:00:00"
    if day.weekday() > 4 or any(row["event_start"] == start for row in workplace.events.rows()):
        return None
    request = (
        f"Put '{name}' with {name_of(person)} on my calendar: {spoken(day)}, at {hour}:00, {minutes} minutes."
    )
    arguments = {"event_name": name, "participant_email": person, "event_start": start, "duration": minutes}
    return Task("calendar", request, [Call("calendar_create_event", arguments)])


def events_with(workplace: Workplace, person: str, first: date, last: date) -> list[Row]:
    return [
        row
        for row in workplace.events.rows()
        if row["participant_email"] == person and str(first) <= row["event_start"][:10] <= str(last)
    ]


def cancel_meetings(workplace: Workplace, rng: random.Random) -> Task | None:
    person = rng.choice(workplace.addresses)
    first = NOW.date() + timedelta(days=1)
    last = first + timedelta(days=rng.randint(6, 13))
    events = events_with(workplace, person, first, last)
    if len(events) not in _FEW:
        return None
    request = f"{name_of(person)} is ill. Cancel our meetings from tomorrow until {spoken(last)}, that day included."
    calls = [Call("calendar_delete_event", {"event_id": row["event_id"]}) for row in events]
    return Task("calendar", request, calls)


def rename_first_event(workplace: Workplace, rng: random.Random) -> Task | None:
    day = NOW.date() + timedelta(days=rng.randint(1, 20))
    events = [row for row in workplace.events.rows() if row["event_start"].startswith(str(day))]
    if not events:
        return None
    first = min(events, key=lambda row: str(row["event_start"]))
    name = rng.choice(("Quarterly outlook", "Risk round", "Supplier talk"))
    arguments = {"event_id": first["event_id"], "field": "event_name", "new_value": name}
    return Task(
        "calendar",
        f"Please rename my first event on {spoken(day)} to '{name}'.",
        [Call("calendar_update_event", arguments)],
    )


def plot_visits(workplace: Workplace, rng: random.Random) -> Task | None:
    last = NOW.date() - timedelta(days=rng.randint(0, 20))
    first = last - timedelta(days=rng.randint(5, 20))
    value, words = rng.choice((("total_visits", "all visits"), ("user_engaged", "engaged visitors")))
    kind = rng.choice(("bar", "line"))
    arguments = {"time_min": str(first), "time_max": str(last), "value_to_plot": value, "plot_type": kind}
    request = f"I need a {kind} chart of {words} from {spoken(first)} to {spoken(last)}."
    return Task("analytics", request, [Call("analytics_create_plot", arguments)])


def report_if_busy(workplace: Workplace, rng: random.Random) -> Task | None:
    """Return a task with a condition on one table and an action in another; a false condition forbids changes."""
    day = NOW.date() - timedelta(days=rng.randint(1, 30))
    visits = sum(1 for visit in workplace.visits if visit["date_of_visit"] == str(day))
    limit = visits + rng.choice((-3, 3))
    person = rng.choice(workplace.addresses)
    subject, body = "Traffic", "We had many visitors. Please check the servers."
    request = (
        f"If our web site had more than {limit} visits on {spoken(day)}, send {name_of(person)} an email with the "
        f"subject '{subject}' and the text '{body}' Otherwise do nothing."
    )
    email = {"recipient": person, "subject": subject, "body": body}
    return Task("analytics", request, [Call("email_send_email", email)] if visits > limit else [])


def tasks_of(workplace: Workplace, person: str, **wanted: str) -> list[Row]:
    return [
        row
        for row in workplace.tasks.rows()
        if row["assigned_to_email"] == person and all(row[field] == value for field, value in wanted.items())
    ]


def complete_reviews(workplace: Workplace, rng: random.Random) -> Task | None:
    person, board = rng.choice(workplace.addresses), rng.choice(BOARDS)
    tasks = tasks_of(workplace, person, list_name="In Review", board=board)
    if len(tasks) not in _FEW:
        return None
    request = (
        f"Everything that {name_of(person)} has in review on the {board} board is done. Move it to Completed."
    )
    change = {"field": "list_name", "new_value": "Completed"}
    calls = [Call("project_management_update_task", {"task_id": row["task_id"], **change}) for row in tasks]
    return Task("project_management", request, calls)


def hand_over_overdue_tasks(workplace: Workplace, rng: random.Random) -> Task | None:
    """Return a task that changes several rows of one table and sends an email about them."""
    leaver, heir = rng.sample(workplace.addresses, 2)
    tasks = [
        row
        for row in tasks_of(workplace, leaver)
        if row["list_name"] != "Completed" and row["due_date"] < str(NOW.date())
    ]
    if len(tasks) not in _FEW:
        return None
    body = f"I have given you the overdue tasks of {name_of(leaver)}."
    request = (
        f"{name_of(leaver)} is leaving. Give all tasks of theirs that are overdue and not completed to "
        f"{name_of(heir)}, and send {name_of(heir)} an email with the subject 'Handover' that says '{body}'"
    )
    change = {"field": "assigned_to_email", "new_value": heir}
    calls = [Call("project_management_update_task", {"task_id": row["task_id"], **change}) for row in tasks]
    email = {"recipient": heir, "subject": "Handover", "body": body}
    return Task("project_management", request, [*calls, Call("email_send_email", email)])


def customers_of(workplace: Workplace, person: str, product: str, status: str) -> list[Row]:
    return [
        row
        for row in workplace.customers.rows()
        if (row["assigned_to_email"], row["product_interest"], row["status"]) == (person, product, status)
    ]


def reassign_leads(workplace: Workplace, rng: random.Random) -> Task | None:
    old, new = rng.sample(workplace.addresses, 2)
    product = rng.choice(PRODUCTS)
    leads = customers_of(workplace, old, product, "Lead")
    if len(leads) not in _FEW:
        return None
    request = (
        f"From now on {name_of(new)} looks after the leads of {name_of(old)} that are interested in "
        f"{product.lower()}. Please change that in the customer database."
    )
    change = {"field": "assigned_to_email", "new_value": new}
    calls = [
        Call("customer_relationship_manager_update_customer", {"customer_id": row["customer_id"], **change})
        for row in leads
    ]
    return Task("customer_relationship_manager", request, calls)


def delete_lost_customers(workplace: Workplace, rng: random.Random) -> Task | None:
    person, product = rng.choice(workplace.addresses), rng.choice(PRODUCTS)
    lost = customers_of(workplace, person, product, "Lost")
    if len(lost) not in _FEW:
        return None
    request = (
        f"Delete all customers of {name_of(person)} that we have lost and that wanted {product.lower()}."
    )
    calls = [
        Call("customer_relationship_manager_delete_customer", {"customer_id": row["customer_id"]})
        for row in lost
    ]
    return Task("customer_relationship_manager", request, calls)


KINDS: Sequence[Callable[[Workplace, random.Random], Task | None]] = (
    reply_to_last_email,
    hand_over_overdue_tasks,
    report_if_busy,
    reassign_leads,
    cancel_meetings,
    plot_visits,
    plan_meeting,
    complete_reviews,
    forward_last_email,
    delete_lost_customers,
    rename_first_event,
)


def make_rows(seed: int) -> Iterator[dict[str, Any]]:
    """Yield task rows without end, cycling through the kinds."""
    workplace, rng = Workplace(generate()), random.Random(seed)
    for index, draw in enumerate(cycle(KINDS)):
        task = None
        while task is None:
            task = draw(workplace, rng)
        yield row_of(index, task)


def row_of(index: int, task: Task) -> dict[str, Any]:
    calls = [{"name": call.name, "arguments": json.dumps(call.arguments)} for call in task.calls]
    tools = [tool.declaration() for tool in TOOLS.values()]
    return compose_task_row(
        [
            {"role": "system", "content": INSTRUCTIONS.format(now=NOW)},
            {"role": "user", "content": task.request},
        ],
        row_id=index,
        params={"tools": tools, "parallel_tool_calls": False},
        ground_truth=calls,
        category=f"workplace_assistant_{task.category}",
        environment_name="workplace_assistant",
    )


def main(arguments: list[str] | None = None) -> None:
    options = generator_options(__doc__, arguments, size=8)
    write_rows(islice(make_rows(options.seed), options.size), options.output)


if __name__ == "__main__":
    main()
