"""Tables that fit a terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from nemo_gym.tables import (
    Column,
    build_cut,
    fold_text,
    hang_text,
    sparkline,
    table_lines,
    terminal_width,
    wrap_phrases,
    write_count,
    write_number,
)

COLUMNS = (
    Column("name"),
    Column("state"),
    Column("calls", rank=1, is_number=True),
    Column("memory", rank=2, is_number=True),
)
ROWS: list[list[str | Text]] = [
    ["policy_model", "ready", "1,234", "30 MB"],
    ["env", Text("silent", style="red"), "-", "-"],
]


def lines(width: int | None) -> list[str]:
    return [str(line) for line in table_lines(COLUMNS, ROWS, width)]


@pytest.mark.parametrize("width", [None, 200, 35])
def test_a_table_that_fits_has_all_columns(width: int | None) -> None:
    assert lines(width) == [
        "name          state   calls  memory",
        "policy_model  ready   1,234   30 MB",
        "env           silent      -       -",
    ]


@pytest.mark.parametrize(
    ("width", "header"),
    [(34, "name          state   calls"), (26, "name          state"), (20, "name          state")],
)
def test_whole_columns_are_left_out_by_rank(width: int, header: str) -> None:
    assert lines(width)[0] == header
    assert lines(width)[1].startswith("policy_model  ready")


def test_names_that_leave_no_room_have_lines_of_their_own() -> None:
    assert lines(15) == ["  state", "policy_model", "  ready", "env", "  silent"]


@pytest.mark.parametrize(
    ("width", "printed"),
    [
        (None, ["name  kind   words", "calc  agent  adds and multiplies"]),
        (24, ["name  kind   words", "calc  agent  adds and m…"]),
        (22, ["name  words", "calc  adds and multip…"]),
        (13, ["  words", "calc", "  adds and m…"]),
    ],
)
def test_the_last_column_is_cut_where_that_is_declared(width: int | None, printed: list[str]) -> None:
    columns = [Column("name"), Column("kind", rank=1), Column("words", shortest=10)]
    assert [
        str(line) for line in table_lines(columns, [["calc", "agent", "adds and multiplies"]], width)
    ] == printed


def test_wide_characters_take_two_columns() -> None:
    rows = table_lines([Column("name"), Column("n", is_number=True)], [["名前", "1"], ["ab", "2"]], None)
    assert [str(row) for row in rows] == ["name  n", "名前  1", "ab    2"]


def test_phrases_are_never_broken() -> None:
    assert list(wrap_phrases(["10 of 20", "3.0/s", "2 in flight"], 16)) == ["10 of 20  3.0/s", "2 in flight"]
    assert list(wrap_phrases(["10 of 20", "3.0/s"], None)) == ["10 of 20  3.0/s"]
    assert list(wrap_phrases([], 80)) == []


def test_a_sparkline_has_a_bar_for_each_value() -> None:
    assert sparkline([0.0, 0.5, 1.0, None, 2.0], 0.0, 1.0) == "▁▅█ █"
    assert sparkline([3.0], 3.0, 3.0) == "▁"
    assert sparkline([0.0, 5e-324], 0.0, 5e-324) == "▁█", "no range is too small"


def test_a_text_beside_a_title_is_wrapped_at_words() -> None:
    assert list(hang_text("python", "3.11 in a long-folder", 8, 20)) == [
        "python  3.11 in a",
        "        long-folder",
    ]
    assert list(hang_text("python", "3.11 in a long-folder", 8, None)) == ["python  3.11 in a long-folder"]


def test_long_lines_continue_to_the_right_of_their_arrow_or_number() -> None:
    text = "gym: 1 problem\n1. out.jsonl exists and is long\n   -> Write to `other file.jsonl` or so"
    assert fold_text(text, 20).splitlines() == [
        "gym: 1 problem",
        "1. out.jsonl exists",
        "   and is long",
        "   -> Write to",
        "      `other file.jsonl`",
        "      or so",
    ]
    assert fold_text(text, None) == text


@given(st.text(alphabet="ab `->1. ", max_size=60), st.integers(1, 30))
def test_folding_loses_no_word(line: str, width: int) -> None:
    assert fold_text(line, width).split() == line.split()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.000"),
        (-0.25, "-0.250"),
        (123456.5, "123456.500"),
        (-1e300, "-1.000e+300"),
        (1e9, "1.000e+09"),
    ],
)
def test_a_number_is_short_whatever_its_size(value: float, shown: str) -> None:
    assert write_number(value) == shown


def test_a_pipe_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal_width(stream) == 72
    for value in ("", "wide"):
        monkeypatch.setenv("COLUMNS", value)
        assert terminal_width(stream) is None
    monkeypatch.delenv("COLUMNS")
    assert terminal_width(stream) is None


def test_titles_lose_the_words_with_which_all_of_them_begin() -> None:
    beginning = "Solve the following problem. Put the final answer in a box. "
    cut = build_cut([f"{beginning}What is 2+2?", f"{beginning}What is 3+3?"])
    assert cut(f"{beginning}What is 2+2?") == "…2+2?"
    assert build_cut([beginning, beginning])(beginning) == beginning
    assert build_cut(["a b", "a c"])("a b") == "a b"
    assert build_cut([])("x") == "x"


def test_one_of_a_thing_is_singular() -> None:
    counts = (0, 1, 1250)
    assert [write_count(count, "row", "rows") for count in counts] == ["0 rows", "1 row", "1,250 rows"]
