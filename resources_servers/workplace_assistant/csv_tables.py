"""Load tables from CSV files, for datasets with their own tables.

A folder holds `emails.csv`, `calendar_events.csv`, `analytics_data.csv`, `project_tasks.csv`,
`customer_relationship_manager_data.csv` and `email_addresses.csv`, the last with one address per line. The columns are
those of the tools' answers; only columns of visits are converted from text.
"""

from __future__ import annotations

import csv
from pathlib import Path

from nemo_gym.failures import ConfigError
from nemo_gym.paths import candidates
from resources_servers.workplace_assistant.tables import Row, Rows, WorkplaceData

COLUMNS = {
    "emails": ("email_id", "inbox/outbox", "sender/recipient", "subject", "sent_datetime", "body"),
    "calendar_events": ("event_id", "event_name", "participant_email", "event_start", "duration"),
    "analytics_data": (
        "date_of_visit",
        "visitor_id",
        "page_views",
        "session_duration_seconds",
        "traffic_source",
        "user_engaged",
    ),
    "project_tasks": ("task_id", "task_name", "assigned_to_email", "list_name", "due_date", "board"),
    "customer_relationship_manager_data": (
        "customer_id",
        "customer_name",
        "assigned_to_email",
        "customer_email",
        "customer_phone",
        "last_contact_date",
        "product_interest",
        "status",
        "notes",
        "follow_up_by",
    ),
}


def load(name: str, now: str) -> WorkplaceData:
    """Load the tables in a folder, whose path is resolved like every path in a configuration.

    Raises `ConfigError` that names the file and its problem.
    """
    folder = next((place for place in candidates(name) if place.is_dir()), Path(name))
    return WorkplaceData(
        now=now,
        addresses=_addresses(folder),
        emails=_table(folder, "emails"),
        events=_table(folder, "calendar_events"),
        visits=tuple(_visit(folder, row) for row in _rows(folder, "analytics_data")),
        tasks=_table(folder, "project_tasks"),
        customers=_table(folder, "customer_relationship_manager_data"),
    )


def _table(folder: Path, name: str) -> Rows:
    id_column = COLUMNS[name][0]
    rows = {row[id_column]: row for row in _rows(folder, name)}
    for key in rows:
        if not key.isdecimal():
            raise _problem(folder / f"{name}.csv", f"the {id_column} {key!r} is not a number")
    return rows


def _rows(folder: Path, name: str) -> list[Row]:
    path = folder / f"{name}.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [column for column in COLUMNS[name] if column not in (reader.fieldnames or ())]
            if missing:
                raise _problem(path, f"it has no column {', '.join(missing)}")
            return [{column: row[column] or "" for column in COLUMNS[name]} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _problem(path, str(error)) from error


def _visit(folder: Path, row: Row) -> Row:
    try:
        numbers = {name: int(row[name]) for name in ("page_views", "session_duration_seconds")}
    except ValueError as error:
        raise _problem(folder / "analytics_data.csv", str(error)) from error
    return {**row, **numbers, "user_engaged": row["user_engaged"].casefold() == "true"}


def _addresses(folder: Path) -> tuple[str, ...]:
    path = folder / "email_addresses.csv"
    try:
        lines = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise _problem(path, str(error)) from error
    return tuple(line.strip('"').lower() for line in lines if "@" in line)


def _problem(path: Path, why: str) -> ConfigError:
    return ConfigError(f"{path} is not a valid table: {why}", code="bad_table", param="tables_folder")
