"""Validation of arguments that several tools take, and paging of answers. Invalid arguments raise `ToolError`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from resources_servers.workplace_assistant.tables import Row, Table
from resources_servers.workplace_assistant.tool import refusal

_DATE, _TIME = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


def existing(table: Table, key: str, noun: str) -> Row:
    """Return the row with this id."""
    row = table.get(key)
    if row is None:
        raise refusal(f"there is no {noun} with the id {key!r}")
    return row


def cell(table: Table, key: str, field: str, noun: str) -> dict[str, Any]:
    """Return one field of a row."""
    row = existing(table, key, noun)
    return {field: row[one_of(field, row.keys(), "field")]}


def one_of(value: str, choices: Collection[str], what: str) -> str:
    """Return the choice that `value` names, ignoring case."""
    for choice in choices:
        if choice.casefold() == value.strip().casefold():
            return choice
    raise refusal(f"{value!r} is no {what}; choose one of: {', '.join(choices)}")


def address(value: str) -> str:
    """Return an email address in lower case."""
    if _ADDRESS.fullmatch(value.strip()) is None:
        raise refusal(f"{value!r} is no email address")
    return value.strip().lower()


def date(value: str) -> str:
    return _parsed(value, _DATE, "date, which is written YYYY-MM-DD")


def moment(value: str) -> str:
    return _parsed(value, _TIME, "time, which is written YYYY-MM-DD HH:MM:SS")


def _parsed(value: str, form: str, what: str) -> str:
    try:
        return datetime.strptime(value.strip(), form).strftime(form)
    except ValueError as error:
        raise refusal(f"{value!r} is no {what}") from error


def minutes(value: str) -> str:
    """Return a duration in minutes in the form of the tables."""
    if not value.strip().isdecimal() or int(value) == 0:
        raise refusal(f"{value!r} is no duration, which is a number of minutes")
    return str(int(value))


def has_words(words: str, *texts: str) -> bool:
    """Return whether every word occurs in the texts, ignoring case."""
    searched = "\n".join(texts).casefold()
    return all(word in searched for word in words.casefold().split())


def page_of(rows: Iterable[Row], noun: str, page: int, page_size: int) -> dict[str, Any]:
    """One page of an answer, and how many there are."""
    if page < 1 or page_size < 1:
        raise refusal("page and page_size start at 1")
    found: Sequence[Row] = list(rows)
    start = (page - 1) * page_size
    return {
        noun: found[start : start + page_size],
        "pagination": {
            f"total_{noun}": len(found),
            "page": page,
            "page_size": page_size,
            "total_pages": -(-len(found) // page_size),
        },
    }
