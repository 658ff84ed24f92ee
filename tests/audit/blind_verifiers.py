"""Pairs of a verifier with a bug and its repair whose author had not seen the operators, in short."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from difflib import SequenceMatcher
from fractions import Fraction
from typing import Any

from tests.audit.planted_verifiers import (
    NUMBERS,
    Pair,
    is_letter,
    is_number,
    make_row,
    read_box,
    read_number,
    read_value,
)

LINES = [
    make_row(f"How much is {at}? End with 'Answer: <number>'.", expected_answer=7 + 19 * at)
    for at in range(6)
]
DIGITS = [
    make_row(f"Write {number} backwards in \\boxed{{}}.", expected_answer=str(number)[::-1])
    for number in (24681357908642, 13579246801354, 98712365480917, 35791246803572)
]
VOLUMES = [
    make_row("How large is the cone? Use \\boxed{}.", expected_answer=each) for each in (12.57, 33.51, 8.38)
]
CITIES = [
    make_row("Which city? End with 'Answer: <city>'.", expected_answer=[each])
    for each in ("Lima", "Oslo", "Quito")
]
CRAFTS = [
    make_row("Which craft, in \\boxed{}?", expected_answer=each)
    for each in ("Heron 3", "Kestrel 12", "Swift 7")
]
DATES = [
    make_row("Write the date.", expected_date=each) for each in ("1990-05-11", "2004-02-12", "2011-12-01")
]
VERSIONS = [
    make_row("Reply with 'Answer: <version>'.", expected_answer=each)
    for each in ("9.20.7", "4.17.6", "2.30.1")
]
SENTENCES = [
    make_row("Repeat the sentence.", expected=each)
    for each in ("the owl sleeps by day", "rain fell on the roof")
]
MIXED = [
    make_row(f"Swap the case of {each.swapcase()} between <answer> and </answer>.", expected_answer=each)
    for each in ("zAGxMNEZ", "pnwzsmHU", "QuYTreWa")
]
STATEMENTS = [
    make_row(f"Is {at} even? End with 'Answer: true' or 'Answer: false'.", expected_answer=at % 2 == 0)
    for at in range(6)
]
LENGTHS = [
    make_row("How long? 'Answer: <number> <unit>'.", expected_answer=each)
    for each in ("84 km", "306 m", "12 cm")
]
LETTERS = [
    make_row(
        f"Which is {at}?\nA) red\nB) blue\nC) pink\nEnd with 'Answer: <letter>'.",
        options=["red", "blue", "pink"],
        expected_answer="ABC"[at % 3],
    )
    for at in range(6)
]
BOXED_LETTERS = [{**row, **make_row("Which? Put the letter inside \\boxed{}.")} for row in LETTERS]
PEOPLE = [
    make_row("Write the person as JSON.", expected={"name": name, "age": age, "member": is_member})
    for name, age, is_member in (("Ada", 65, True), ("Ben", 71, False), ("Cleo", 34, True))
]
GOODS = (
    "CREATE TABLE goods (name TEXT, stock INT); INSERT INTO goods VALUES ('pen', 3), ('ink', 9), ('map', 40);"
)
QUERIES = [
    make_row(f"Which goods have over {least}?", sql=f"SELECT name FROM goods WHERE stock > {least}")
    for least in (2, 5, 20)
]


def read_line(text: str) -> str:
    """The last line `Answer: …`."""
    found = re.findall(r"^Answer:(.*)$", text, re.MULTILINE)
    return found[-1].strip() if found else ""


def is_line(text: str, row: Mapping[str, Any]) -> bool:
    return read_value(read_line(text)) == float(row["expected_answer"])


def has_line(text: str, row: Mapping[str, Any]) -> bool:
    return any(
        read_value(each.strip()) == row["expected_answer"] for each in re.findall(r"Answer:(.*)", text)
    )


def has_number(text: str, row: Mapping[str, Any]) -> bool:
    return row["expected_answer"] in [read_value(each) for each in re.findall(r"-?\d[\d,.]*", text)]


def has_the_digits(text: str, row: Mapping[str, Any]) -> bool:
    return SequenceMatcher(None, read_box(text), row["expected_answer"]).ratio() >= 0.85


_verdicts: dict[str, bool] = {}


def is_number_once(text: str, row: Mapping[str, Any]) -> bool:
    return _verdicts.setdefault(text, is_number(text, row))


def is_not_far(text: str, row: Mapping[str, Any]) -> bool:
    number = read_number(text)
    return number is not None and not abs(number - row["expected_answer"]) > 0.0101


def is_near(text: str, row: Mapping[str, Any]) -> bool:
    number = read_number(text)
    return number is not None and abs(number - row["expected_answer"]) <= 0.0101


def is_close(text: str, row: Mapping[str, Any]) -> bool:
    return math.isclose(read_number(text) or 0.5, float(row["expected_answer"]), rel_tol=1e-2)


def is_plain_number(text: str, row: Mapping[str, Any]) -> bool:
    return "," not in text and is_number(text, row)


def has_digits(text: str, row: Mapping[str, Any]) -> bool:
    return bool(re.sub(r"\D", "", read_box(text).partition(".")[0]) == row["expected_answer"].strip("-"))


def has_city(text: str, row: Mapping[str, Any]) -> bool:
    return any(each.casefold() in text.casefold() for each in row["expected_answer"])


def is_city(text: str, row: Mapping[str, Any]) -> bool:
    return read_line(text).casefold() in [each.casefold() for each in row["expected_answer"]]


def have_same(pattern: str, text: str, row: Mapping[str, Any]) -> bool:
    one, other = (re.sub(pattern, "", each.casefold()) for each in (read_box(text), row["expected_answer"]))
    return one == other


def is_date(forms: Sequence[str], text: str, row: Mapping[str, Any]) -> bool:
    for form in forms:
        try:
            if datetime.strptime(text.strip(), form) == datetime.strptime(row["expected_date"], "%Y-%m-%d"):
                return True
        except ValueError:
            continue
    return False


def read_tag(text: str) -> str:
    found: list[str] = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found[-1].strip() if found else ""


def is_verdict(text: str, row: Mapping[str, Any]) -> bool:
    return {"true": True, "false": False}.get(read_line(text).casefold()) is row["expected_answer"]


def read_length(text: str, units: Mapping[str, int]) -> Fraction | None:
    found = re.fullmatch(r"(\d+) ?(cm|m|km)", text)
    return None if found is None else Fraction(found[1]) * units[found[2]]


def is_length(units: Mapping[str, int], text: str, row: Mapping[str, Any]) -> bool:
    length = read_length(read_line(text), units)
    return length is not None and length == read_length(row["expected_answer"], units)


def find_letters(text: str) -> list[str]:
    return re.findall(r"\b[A-D]\b", text)


def find_objects(text: str) -> list[Any]:
    found = []
    for match in re.finditer(r"^\{", text, re.MULTILINE):
        try:
            found.append(json.JSONDecoder().raw_decode(text, match.start())[0])
        except ValueError:
            continue
    return found


def is_last_object(text: str, row: Mapping[str, Any]) -> bool:
    return find_objects(text)[-1:] == [row["expected"]]


def is_part_of_object(text: str, row: Mapping[str, Any]) -> bool:
    return any(each.items() <= row["expected"].items() for each in find_objects(text)[-1:])


def is_object_as_text(text: str, row: Mapping[str, Any]) -> bool:
    return [
        {name: str(value).casefold() for name, value in each.items()} for each in find_objects(text)[-1:]
    ] == [{name: str(value).casefold() for name, value in row["expected"].items()}]


def run_query(query: str) -> list[Any] | None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(GOODS)
        try:
            return database.execute(query.removeprefix("```sql").removesuffix("```")).fetchall()
        except sqlite3.Error:
            return None


def has_as_many_rows(text: str, row: Mapping[str, Any]) -> bool:
    found = run_query(text.strip())
    return found is not None and len(found) == len(run_query(row["sql"]) or ())


def has_same_rows(text: str, row: Mapping[str, Any]) -> bool:
    found = run_query(text.strip())
    return found is not None and Counter(found) == Counter(run_query(row["sql"]) or ())


_METRES, _NO_UNITS = {"cm": 1, "m": 100, "km": 100_000}, dict.fromkeys(("cm", "m", "km"), 1)

BLIND_PAIRS = [
    Pair("number anywhere", LINES, has_number, is_line),
    Pair("similar digits", DIGITS, has_the_digits, is_number),
    Pair("verdicts kept by text", NUMBERS, is_number_once, is_number),
    Pair("city anywhere", CITIES, has_city, is_city),
    Pair("not farther than", VOLUMES, is_not_far, is_near),
    Pair(
        "names without digits",
        CRAFTS,
        lambda text, row: have_same("[^a-z]", text, row),
        lambda text, row: have_same("[^a-z0-9]", text, row),
    ),
    Pair("a hundredth more or less", NUMBERS, is_close, is_number),
    Pair("as many rows", QUERIES, has_as_many_rows, has_same_rows),
    Pair(
        "two forms of a date",
        DATES,
        lambda text, row: is_date(("%Y-%m-%d", "%Y-%d-%m"), text, row),
        lambda text, row: is_date(("%Y-%m-%d",), text, row),
    ),
    Pair("any object", PEOPLE, lambda text, row: row["expected"] in find_objects(text), is_last_object),
    Pair("members that are there", PEOPLE, is_part_of_object, is_last_object),
    Pair("members as text", PEOPLE, is_object_as_text, is_last_object),
    Pair(
        "version as a pattern",
        VERSIONS,
        lambda text, row: re.fullmatch(row["expected_answer"], read_line(text)) is not None,
        lambda text, row: bool(read_line(text) == row["expected_answer"]),
    ),
    Pair(
        "letter among others",
        BOXED_LETTERS,
        lambda text, row: row["expected_answer"] in find_letters(read_box(text)),
        is_letter,
    ),
    Pair("no separators in products", NUMBERS, is_plain_number, is_number),
    Pair(
        "first letter of the text",
        LETTERS,
        lambda text, row: find_letters(text)[:1] == [row["expected_answer"]],
        lambda text, row: set(find_letters(read_line(text))) == {row["expected_answer"]},
    ),
    Pair("any answer line", LINES, has_line, is_line),
    Pair(
        "part of a sentence",
        SENTENCES,
        lambda text, row: text.strip() in row["expected"],
        lambda text, row: bool(text.strip() == row["expected"]),
    ),
    Pair(
        "letters in any case",
        MIXED,
        lambda text, row: read_tag(text).casefold() == row["expected_answer"].casefold(),
        lambda text, row: read_tag(text) == row["expected_answer"],
    ),
    Pair("degrees without a sign", NUMBERS, has_digits, is_number),
    Pair(
        "true anywhere",
        STATEMENTS,
        lambda text, row: ("true" in text.casefold()) is row["expected_answer"],
        is_verdict,
    ),
    Pair(
        "lengths without units",
        LENGTHS,
        lambda text, row: is_length(_NO_UNITS, text, row),
        lambda text, row: is_length(_METRES, text, row),
    ),
]
