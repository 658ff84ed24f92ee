"""The law of each operator, by a second opinion that shares no code with verifiers."""

from __future__ import annotations

import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.audit.answer_types import UNKNOWN, AnswerType, ExpectedAnswer, WrittenForm, find_answer
from nemo_gym.audit.operators import (
    RIGHT_ATTEMPTS,
    change_argument,
    list_lacking,
    make_attempts,
    miss_choice,
    miss_code,
    miss_expression,
    miss_json,
    miss_number,
    miss_set,
    miss_sql,
    miss_text,
    respell_choice,
    respell_json,
    respell_number,
    respell_set,
    respell_sql,
)
from nemo_gym.audit.outcomes import Right

_WORDS = {"billion": Fraction(10**9), "thousandths": Fraction(1, 1000)}


def read_value(text: str) -> Fraction | None:
    """The value of a number with separators, dollars, braces, a power of ten or a number word; None for two numbers."""
    plain = (
        text.strip("$").replace(",", "").replace("\N{MINUS SIGN}", "-").removeprefix("{").removesuffix("}")
    )
    if " or " in plain:
        return None
    if " \\cdot 10^{" in plain:
        digits, _, power = plain.partition(" \\cdot 10^{")
        return Fraction(digits) * Fraction(10) ** int(power)
    if plain.lstrip("-").startswith("10^{"):
        return Fraction(-1 if plain.startswith("-") else 1) * Fraction(10) ** int(plain.partition("{")[2])
    digits, _, word = plain.partition(" ")
    return Fraction(digits) * _WORDS.get(word, Fraction(1))


numbers = st.one_of(
    st.integers(-(10**30), 10**30).map(str),
    st.integers(1000, 10**9).map("{:,}".format),
    st.decimals(-1000, 1000, places=4, allow_nan=False).map("{:f}".format),
    st.integers(1, 9999).map("0.00000{}".format),
    st.just("0.00001"),
)


@given(numbers)
def test_respelled_numbers_are_the_same_and_missed_ones_are_others(gold: str) -> None:
    answer = ExpectedAnswer(AnswerType.NUMBER, gold, (gold,))
    value = read_value(gold)
    for kind, text in respell_number(answer):
        assert read_value(text) == value, kind
    missed = dict(miss_number(answer))
    for kind, text in missed.items():
        assert read_value(text) != value, (kind, text)
    assert missed


@given(
    st.recursive(
        st.integers() | st.text() | st.booleans(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_respelled_json_is_the_same_value_and_missed_json_is_not(member: object) -> None:
    value = {"id": 7, "member": member}
    answer = ExpectedAnswer(AnswerType.JSON, value=value)
    for kind, text in respell_json(answer):
        assert json.loads(text) == value, kind
    for kind, text in miss_json(answer):
        try:
            assert json.loads(text) != value, kind
        except json.JSONDecodeError:
            assert kind == "cut off"


elements = st.integers(-50, 50).map(str) | st.sampled_from("abcxyz")


@given(st.lists(elements, min_size=2, max_size=8), st.sampled_from(("{{{}}}", "\\{{{}\\}}")))
def test_respelled_sets_have_the_same_elements_and_missed_ones_others(drawn: list[str], braces: str) -> None:
    gold = braces.format(", ".join(drawn))
    answer = find_answer({"expected_answer": gold})
    assert answer.type is AnswerType.SET
    for kind, text in respell_set(answer):
        assert sorted(re.findall(r"-?\w+", text)) == sorted(drawn), kind
    missed = dict(miss_set(answer))
    for kind, text in missed.items():
        assert set(re.findall(r"-?\w+", text)) != set(drawn), (kind, text)
    assert bool(missed) is (len(set(drawn)) > 1)


def run_limited(code: str, given_line: str) -> tuple[int, bytes]:
    """The exit status and the output of a program with two CPU seconds and a megabyte of output."""
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            [sys.executable, "-I", "-c", f"import resource\n{_LIMITS}\n{code}"],
            input=given_line.encode(), stdout=output, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        output.seek(0)
        return done.returncode, output.read()


_LIMITS = """
resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
"""


@settings(max_examples=3)
@given(st.lists(st.integers(-99, 99), min_size=2, max_size=4, unique=True), st.integers(2, 9))
def test_no_missed_program_prints_the_right_output_of_all_tests(inputs: list[int], factor: int) -> None:
    outputs = [f"{number * factor}\n" for number in inputs]
    programs = dict(miss_code(None, outputs, all_kinds=False))
    assert len(programs) == 6
    for kind, code in programs.items():
        printed = [run_limited(code, f"{number}\n")[1].decode(errors="replace") for number in inputs]
        assert printed != outputs, kind
        assert (printed[0] == outputs[0]) is (kind == "code with the first test's answer")


@given(st.lists(st.integers(), min_size=2, unique=True))
def test_no_missed_function_returns_the_right_values(values: list[int]) -> None:
    programs = dict(miss_code("solve", values, all_kinds=False))
    for kind in ("code with the first test's answer", "code that equals anything"):
        scope: dict[str, Any] = {}
        exec(programs[kind], scope)
        returned = scope["solve"](1)
        assert type(returned) is not int or [returned] * len(values) != values
        assert (type(returned) is int) is (kind == "code with the first test's answer")


def test_programs_that_take_the_time_limit_end_by_their_limits_only() -> None:
    slow = dict(miss_code(None, [], all_kinds=True))
    assert -run_limited(slow["code that hangs"], "")[0] in (signal.SIGXCPU, signal.SIGKILL)
    status, printed = run_limited(slow["code with endless output"], "")
    assert status != 0
    assert printed.strip() not in (b"", b"2")
    assert len(printed) == 1 << 20


@given(st.integers(2, 12), st.data())
def test_other_letters_are_other_letters(count: int, data: st.DataObject) -> None:
    letters = [chr(ord("A") + at) for at in range(count)]
    gold = data.draw(st.sampled_from(letters))
    answer = ExpectedAnswer(AnswerType.CHOICE, gold, (gold,), tuple((letter, "x") for letter in letters))
    for kind, text in respell_choice(answer):
        assert set(re.findall(r"\b[A-Z]\b", text)) == {gold}, kind
    for kind, text in miss_choice(answer):
        assert set(re.findall(r"\b[A-Z]\b", text)) != {gold}, kind


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), max_size=5), st.integers(0, 9))
def test_missed_queries_have_another_result(rows: list[tuple[int, str]], limit: int) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (n INT, c TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", rows)
        gold = f"SELECT n, c FROM t WHERE n <= {limit} ORDER BY n, c"
        answer = ExpectedAnswer(AnswerType.SQL, gold, (gold,))
        expected = database.execute(gold)
        columns, result = len(expected.description), expected.fetchall()
        for kind, query in respell_sql(answer):
            assert database.execute(query).fetchall() == result, kind
        for kind, query in miss_sql(answer):
            try:
                found = database.execute(query)
            except sqlite3.OperationalError:
                assert kind == "syntax error"
                continue
            has_other_columns = found.description is None or len(found.description) != columns
            assert has_other_columns or found.fetchall() != result, kind


@pytest.mark.parametrize(
    ("members", "missed"),
    [
        ({"expected_answer": "84 km"}, {"84 m", "84 mm", "85 km"}),
        ({"expected_date": "1990-05-11"}, {"1990-11-05", "1990-05-12"}),
        ({"expected_date": "1990-05-13"}, {"1990-05-14"}),
        ({"expected_answer": "9.20.7"}, {"9x20.7", "9.20.8"}),
        ({"expected_answer": "aBc", "case_sensitive": True}, {"AbC"}),
    ],
)
def test_texts_are_missed_by_what_they_are(members: dict[str, Any], missed: set[str]) -> None:
    about = {text for kind, text in miss_text(find_answer(members)) if kind not in ("denied", "among others")}
    assert about == missed


def test_an_argument_is_changed_where_there_is_one() -> None:
    assert change_argument({"to": "Ada", "count": 2}) == {"to": "Ada", "count": 3}
    assert change_argument({"to": "Ada", "at": None}) == {"to": "Ada and more", "at": None}
    assert change_argument({}) is None


def test_an_expression_without_a_finite_value_is_not_increased() -> None:
    for gold in ("x=3", "(-\\infty, 2]", "\\{1, 2\\}", "3 \\pm 1", "\\text{no}"):
        assert dict(miss_expression(ExpectedAnswer(AnswerType.EXPRESSION, gold, (gold,)))) == {}
    assert dict(miss_expression(ExpectedAnswer(AnswerType.EXPRESSION, "\\frac{1}{2}", ("",))))


def make(
    answer: ExpectedAnswer, form: WrittenForm = WrittenForm.BOXED, question: str = "Which?"
) -> dict[str, Right]:
    attempts = make_attempts(answer, form, question, other="12", chance=random.Random(0))
    return {attempt.text: attempt.right for attempt in attempts}


def test_what_is_taken_back_or_says_nothing_must_be_rejected() -> None:
    attempts = make(ExpectedAnswer(AnswerType.NUMBER, "7", ("7",)))
    assert attempts[""] is attempts["\\boxed{}"] is attempts["\\boxed{12}"] is Right.REJECT
    assert [text for text, right in attempts.items() if text.startswith("\\boxed{7}\nWait")]
    assert attempts["答案是 \\boxed{7}。"] is Right.ACCEPT


def test_another_rows_answer_is_no_miss_if_it_is_the_same() -> None:
    attempts = make(ExpectedAnswer(AnswerType.NUMBER, "12.0", ("12.0",)))
    assert attempts["\\boxed{13.0}"] is Right.REJECT
    assert "\\boxed{12}" not in attempts


def test_without_an_expected_answer_nothing_is_sure() -> None:
    attempts = make_attempts(UNKNOWN, WrittenForm.PLAIN, "Q", other=None, chance=random.Random(0))
    assert {(attempt.right, attempt.is_sure) for attempt in attempts} == {(Right.REJECT, False)}


def test_an_echo_of_a_prompt_that_has_the_answer_is_not_sure() -> None:
    answer = ExpectedAnswer(AnswerType.TEXT, "level", ("level",))
    by_kind = {
        attempt.kind: attempt.is_sure
        for attempt in make_attempts(
            answer, WrittenForm.PLAIN, "Write 'level' backwards.", other=None, chance=random.Random(0)
        )
    }
    assert not by_kind["prompt echoed"]
    assert by_kind["empty"]


@pytest.mark.parametrize(
    ("members", "lacking"),
    [
        ({"expected_answer": "12"}, []),
        ({"expected_answer": "12", "grading_mode": "strict"}, ["other spellings"]),
        ({"expected_answer": "A", "options": ["x", "y"]}, []),
        ({"expected_answer": "A", "answer_type": "choice"}, ["near misses"]),
        ({"expected_answer": "x = 2"}, ["near misses"]),
        ({"expected_answer": "Lima"}, ["other spellings"]),
        ({"expected_answer": "3/4/2024", "answer_type": "text"}, ["other spellings"]),
        ({"expected_answer": "Ai!"}, ["other spellings", "near misses"]),
        ({"expected_answer": ["Lima"], "case_sensitive": False}, []),
        ({"expected": {"a": 1}}, []),
        ({"sql": "SELECT 1"}, []),
        ({"ground_truth": [{"name": "f", "arguments": {}}]}, []),
        ({}, [RIGHT_ATTEMPTS, "near misses"]),
    ],
)
def test_the_classes_without_a_probe_are_named(members: dict[str, Any], lacking: list[str]) -> None:
    assert list_lacking(find_answer(members)) == lacking
