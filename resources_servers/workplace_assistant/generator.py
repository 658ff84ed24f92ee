"""Generate the tables of a fictional company from a seed, identically on every machine.

The tables are linked: the people in the directory write emails, attend events, and own tasks and customers; emails and
events refer to tasks and customers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any

from resources_servers.workplace_assistant.tables import Row, Rows, WorkplaceData
from resources_servers.workplace_assistant.toolkits.analytics import SOURCES
from resources_servers.workplace_assistant.toolkits.customers import PRODUCTS, STATUSES
from resources_servers.workplace_assistant.toolkits.projects import BOARDS, LISTS

NOW = datetime(2023, 11, 30, 23, 59)
DOMAIN = "harborlight.example"
_EMAILS, _EVENTS, _VISITS, _TASKS, _CUSTOMERS = 400, 300, 900, 300, 200

# First names are unique among colleagues, and no customer has one of theirs, so that a first name identifies a person.
_FIRST_NAMES = (
    "amara", "bjorn", "celine", "dmitri", "elif", "farah", "goran", "hanna", "ivan", "jasmin", "kofi", "linnea",
    "marta", "noor", "oskar", "priya", "quentin", "ruth", "stefan", "tomoko",
)  # fmt: skip
_LAST_NAMES = (
    "adeyemi", "berg", "castellano", "dvorak", "eriksen", "fontaine", "grimaldi", "haddad", "ilves", "jansen",
    "kovacs", "lindqvist", "mbeki", "nakamura", "oduya", "petrov", "rossi", "sandoval", "tanaka", "weiss",
)  # fmt: skip
_CUSTOMER_NAMES = (
    "Adela", "Bruno", "Chiara", "Dario", "Esther", "Fabian", "Greta", "Hugo", "Ines", "Jonas", "Katya", "Lorenzo",
    "Mina", "Nils", "Olga", "Pavel",
)  # fmt: skip
_THINGS = {
    "Back end": (
        "login service",
        "invoice export",
        "search index",
        "message queue",
        "audit log",
        "rate limiter",
    ),
    "Front end": (
        "landing page",
        "settings dialog",
        "chart view",
        "sign-up form",
        "dark theme",
        "help center",
    ),
    "Design": (
        "icon set",
        "onboarding flow",
        "color palette",
        "style guide",
        "email template",
        "print layout",
    ),
}
_DEEDS = ("Rework", "Test", "Document", "Speed up", "Translate", "Extend", "Simplify", "Review")
_COMPANIES = (
    "Alder Mills", "Blue Heron Press", "Cobalt Freight", "Dune Optics", "Ember Bakery", "Fjord Textiles",
    "Granite Labs", "Hollow Oak Toys", "Iris Dental", "Juniper Homes", "Kestrel Air", "Lumen Schools",
)  # fmt: skip
_OPENINGS = ("A quick note", "An update", "A question", "News", "A reminder", "Some thoughts")
_MEETINGS = ("Sync", "Workshop", "Demo", "Planning", "Handover", "Retrospective")


@lru_cache(maxsize=4)
def generate(seed: int = 0) -> WorkplaceData:
    """Generate the tables of `seed`."""
    rng = random.Random(seed)
    last_names = rng.sample(_LAST_NAMES, len(_LAST_NAMES))
    people = tuple(f"{first}.{last}@{DOMAIN}" for first, last in zip(_FIRST_NAMES, last_names, strict=True))
    tasks = _tasks(rng, people)
    customers = _customers(rng, people)
    subjects = sorted({row["task_name"] for row in tasks} | {row["customer_name"] for row in customers[:60]})
    return WorkplaceData(
        now=str(NOW),
        addresses=people,
        emails=_with_ids("email_id", _emails(rng, people, subjects)),
        events=_with_ids("event_id", _events(rng, people, subjects)),
        visits=tuple(_visits(rng)),
        tasks=_with_ids("task_id", tasks),
        customers=_with_ids("customer_id", customers),
    )


def _with_ids(column: str, rows: Sequence[Row]) -> Rows:
    return {f"{index:08}": {column: f"{index:08}", **row} for index, row in enumerate(rows)}


def name_of(address: str) -> str:
    """Return the first name in an address, such as "Amara"."""
    return address.partition(".")[0].capitalize()


def _day(rng: random.Random, first: int, last: int) -> date:
    """Draw a day between `first` and `last` days after today."""
    return NOW.date() + timedelta(days=rng.randint(first, last))


def _working_day(rng: random.Random, first: int, last: int) -> date:
    while True:
        day = _day(rng, first, last)
        if day.weekday() < 5:
            return day


def _tasks(rng: random.Random, people: Sequence[str]) -> list[dict[str, Any]]:
    tasks = []
    for _ in range(_TASKS):
        board = rng.choice(BOARDS)
        tasks.append(
            {
                "task_name": f"{rng.choice(_DEEDS)} the {rng.choice(_THINGS[board])}",
                "assigned_to_email": rng.choice(people),
                "list_name": rng.choice(LISTS),
                "due_date": str(_day(rng, -20, 40)),
                "board": board,
            }
        )
    return tasks


def _customers(rng: random.Random, people: Sequence[str]) -> list[dict[str, Any]]:
    customers = []
    for index in range(_CUSTOMERS):
        first, last = rng.choice(_CUSTOMER_NAMES), rng.choice(_LAST_NAMES).capitalize()
        company = rng.choice(_COMPANIES)
        customers.append(
            {
                "customer_name": f"{first} {last}",
                "assigned_to_email": rng.choice(people),
                "customer_email": f"{first}.{last}{index}@{company.replace(' ', '')}.example".lower(),
                "customer_phone": f"+44 1632 {rng.randint(960000, 960999)}" if rng.random() < 0.8 else "",
                "last_contact_date": str(_day(rng, -70, -1)),
                "product_interest": rng.choice(PRODUCTS),
                "status": rng.choice(STATUSES),
                "notes": f"Works at {company}." if rng.random() < 0.5 else "",
                "follow_up_by": str(_day(rng, -10, 45)),
            }
        )
    return customers


def _emails(rng: random.Random, people: Sequence[str], subjects: Sequence[str]) -> list[dict[str, Any]]:
    # The minutes differ, so that "the last email" is unambiguous.
    ages = sorted(rng.sample(range(60, 60 * 24 * 45), _EMAILS), reverse=True)
    emails = []
    for age in ages:
        person, subject = rng.choice(people), rng.choice(subjects)
        is_received = rng.random() < 0.7
        writer, reader = ("Sam", name_of(person)) if not is_received else (name_of(person), "Sam")
        opening = rng.choice(_OPENINGS)
        emails.append(
            {
                "inbox/outbox": "inbox" if is_received else "outbox",
                "sender/recipient": person,
                "subject": f"{opening}: {subject}",
                "sent_datetime": str(NOW - timedelta(minutes=age)),
                "body": f"Hello {reader},\n\n{subject}: can we talk this week?\n\n{writer}",
            }
        )
    return emails


def _events(rng: random.Random, people: Sequence[str], subjects: Sequence[str]) -> list[dict[str, Any]]:
    taken: set[datetime] = set()
    events: list[dict[str, Any]] = []
    while len(events) < _EVENTS:
        start = datetime.combine(_working_day(rng, -30, 40), time(rng.randint(9, 16)))
        if start in taken:
            continue
        taken.add(start)
        events.append(
            {
                "event_name": f"{rng.choice(_MEETINGS)}: {rng.choice(subjects)}",
                "participant_email": rng.choice(people),
                "event_start": str(start),
                "duration": rng.choice(("30", "60")),
            }
        )
    return events


def _visits(rng: random.Random) -> list[dict[str, Any]]:
    visits = [
        {
            "date_of_visit": str(_day(rng, -60, 0)),
            "visitor_id": f"{rng.randint(0, 3999):04}",
            "page_views": rng.randint(1, 20),
            "session_duration_seconds": rng.randint(5, 1200),
            "traffic_source": rng.choice(SOURCES),
            "user_engaged": rng.random() < 0.4,
        }
        for _ in range(_VISITS)
    ]
    return sorted(visits, key=lambda visit: (str(visit["date_of_visit"]), str(visit["visitor_id"])))
