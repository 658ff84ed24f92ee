"""Complete tasks of IFBench: instructions about the content of an answer, not only its form."""

from __future__ import annotations

import csv
import re
import unicodedata
from datetime import date
from itertools import pairwise

from resources_servers.instruction_following.instructions.lexicon import listed
from resources_servers.instruction_following.instructions.registry import instruction
from resources_servers.instruction_following.instructions.text_units import lines, sentences

_DIGITS = re.compile(r"\d+")


@instruction("custom:multiples", wording="Count from 10 to 50, but print multiples of 7 only.")
def counts_by_seven(text: str) -> bool:
    return _DIGITS.findall(text) == [str(multiple) for multiple in range(14, 51, 7)]


_QUESTION = re.compile(r"^[^\w\n]*Question\b", re.MULTILINE)
_OPTION = re.compile(r"^[^\w\n]*[A-Ea-e][.):][^\S\n]*\S", re.MULTILINE)


@instruction(
    "custom:mcq_count_length",
    wording="Write 4 multiple-choice questions labelled Question, each longer than the one before, of 5 options.",
)
def asks_four_questions(text: str) -> bool:
    starts = [question.start() for question in _QUESTION.finditer(text)]
    if len(starts) != 4 or text[: starts[0]].strip():
        return False
    questions = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    stems = [_OPTION.split(question)[0].strip() for question in questions]
    is_growing = all(len(earlier) < len(later) for earlier, later in pairwise(stems))
    return is_growing and all(len(_OPTION.findall(question)) == 5 for question in questions)


_FEWEST_COUNTRIES = 52  # lists of Africa's countries differ by two or three


@instruction(
    "custom:reverse_newline",
    wording="List the countries of Africa in reverse alphabetical order, one a line.",
)
def lists_countries_backwards(text: str) -> bool:
    names = [_ascii(line).strip(" -*.0123456789)").lower() for line in lines(text)]
    first = next((place for place, name in enumerate(names) if name == "zimbabwe"), len(names))
    countries = [name for name in names[first:] if name]
    return len(countries) >= _FEWEST_COUNTRIES and countries == sorted(countries, reverse=True)


@instruction(
    "custom:word_reverse", wording="Name the national animal of the US in one sentence, words reversed."
)
def says_bald_eagle_by_words(text: str) -> bool:
    said = re.sub(r"[^\w\s]", "", text.lower()).split()
    return "bald eagle" in " ".join(reversed(said)) and len(sentences(text)) == 1


@instruction("custom:character_reverse", wording="Name the national animal of the US, letters reversed.")
def says_bald_eagle_by_letters(text: str) -> bool:
    return "elgae dlab" in text.lower()


_CAPITALS = listed(
    "Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin Amsterdam Warsaw "
    "London Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz Chisinau Bern Ljubljana Zagreb"
)


@instruction(
    "custom:european_capitals_sort",
    wording="List Europe's capitals above 45 degrees of latitude, with commas, from north to south.",
)
def lists_northern_capitals(text: str) -> bool:
    return [capital.strip(" .\n") for capital in _ascii(text).split(",")] == [*_CAPITALS]


@instruction(
    "custom:csv_city", wording="Write CSV of 7 rows with the columns ID, Country, City, Year, Count."
)
def is_city_csv(text: str) -> bool:
    return _is_table(_csv_rows(text, ","), ["ID", "Country", "City", "Year", "Count"], rows=7)


_QUOTED_SPECIAL = re.compile(r'"[^"\n]*[^\w\s"][^"\n]*"')


@instruction(
    "custom:csv_special_character",
    wording="Write CSV of 14 rows with the columns ProductID, Category, Brand, Price, Stock, "
    "one field in double quotes with a special character.",
)
def is_product_csv(text: str) -> bool:
    header = ["ProductID", "Category", "Brand", "Price", "Stock"]
    body = text.partition("\n")[2]
    return _is_table(_csv_rows(text, ","), header, rows=14) and _QUOTED_SPECIAL.search(body) is not None


@instruction(
    "custom:csv_quotes",
    wording="Write tab-separated values of 3 rows with the columns StudentID, Subject, Grade, Semester, Score, "
    "every field in double quotes.",
)
def is_student_csv(text: str) -> bool:
    header = ["StudentID", "Subject", "Grade", "Semester", "Score"]
    fields = [field.strip() for line in lines(text) for field in line.split("\t")]
    is_quoted = all(len(field) > 1 and field[0] == field[-1] == '"' for field in fields)
    return is_quoted and _is_table(_csv_rows(text, "\t"), header, rows=3)


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_NAPOLEONS_LIFE = (1769, 1821)


@instruction(
    "custom:date_format_list",
    wording="List the start dates of Napoleon's battles as YYYY-MM-DD with commas, and nothing else.",
)
def lists_dates(text: str) -> bool:
    return all(_is_date_of_napoleon(entry.strip()) for entry in text.split(","))


def _is_date_of_napoleon(entry: str) -> bool:
    if _DATE.fullmatch(entry) is None:
        return False
    try:
        day = date.fromisoformat(entry)
    except ValueError:
        return False  # the date does not exist
    return _NAPOLEONS_LIFE[0] <= day.year <= _NAPOLEONS_LIFE[1]


def _csv_rows(text: str, delimiter: str) -> list[list[str]]:
    """Return the rows of a CSV text with trimmed fields; no rows when it is not valid CSV."""
    try:
        reader = csv.reader(
            text.strip().splitlines(), delimiter=delimiter, skipinitialspace=True, strict=True
        )
        return [[field.strip() for field in row] for row in reader]
    except csv.Error:
        return []  # invalid CSV does not follow the instruction


def _is_table(table: list[list[str]], header: list[str], *, rows: int) -> bool:
    return table[:1] == [header] and len(table) == rows + 1 and all(len(row) == len(header) for row in table)


def _ascii(text: str) -> str:
    """Return `text` without accents."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
