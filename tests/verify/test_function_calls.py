from __future__ import annotations

import itertools
from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.verify.function_calls import (
    FunctionCall,
    compare_calls,
    is_same_call,
    read_expected_calls,
    read_function_calls,
)


def call(name: str, **arguments: Any) -> FunctionCall:
    return FunctionCall(name, arguments)


def test_calls_are_read_from_a_response() -> None:
    output = [
        {"type": "message", "role": "assistant", "content": []},
        {"type": "function_call", "name": "add", "arguments": '{"a": 1, "b": [2]}'},
        {"type": "function_call", "name": "stop", "arguments": ""},
        {"type": "function_call", "name": "bad", "arguments": '{"a": '},
        {"type": "function_call", "name": "list", "arguments": "[1]"},
    ]
    assert read_function_calls({"output": output}) == [
        call("add", a=1, b=[2]),
        call("stop"),
        FunctionCall("bad", None),
        FunctionCall("list", None),
    ]
    assert read_function_calls({}) == []


def test_dataset_calls_have_two_forms_and_all_invalid_ones_are_reported() -> None:
    entries: list[dict[str, Any]] = [
        {"name": "f", "arguments": '{"x": 1}'},
        {"name": "f", "arguments": {"x": 1}},
    ]
    assert read_expected_calls(entries) == [call("f", x=1), call("f", x=1)]
    assert read_expected_calls([{"name": "f"}]) == [call("f")]
    with pytest.raises(InputError, match=r"call 0 has no name; the arguments of call 1 \(g\)"):
        read_expected_calls([{"arguments": {}}, {"name": "g", "arguments": "x"}])


@pytest.mark.parametrize(
    ("expected", "actual", "is_same"),
    [
        (call("f", a=1, b="x"), call("f", b="x", a=1.0), True),
        (call("f", a={"b": [1, None]}), call("f", a={"b": [1, None]}), True),
        (call("f", a=1), call("g", a=1), False),
        (call("f", a=1), call("f", a=True), False),
        (call("f", a=1), call("f", a="1"), False),
        (call("f", a=1), call("f"), False),
        (call("f"), call("f", a=1), False),
        (call("f"), FunctionCall("f", None), False),
        (FunctionCall("f", None), FunctionCall("f", None), False),
    ],
)
def test_calls_are_compared_by_name_and_json_arguments(
    expected: FunctionCall, actual: FunctionCall, is_same: bool
) -> None:
    assert is_same_call(expected, actual) is is_same


def test_ignored_arguments_and_tolerance() -> None:
    left, right = call("f", a=0.3, id=1), call("f", a=0.1 + 0.2, id=2)
    assert is_same_call(left, right, ignored_arguments=["id"], tolerance=1e-9)
    assert not is_same_call(left, right, ignored_arguments=["id"])
    assert not is_same_call(left, right, tolerance=1e-9)
    found = compare_calls([left], [right], ignored_arguments=["id"], tolerance=1e-9)
    assert found.is_exact


A, B, C = call("a"), call("b"), call("c")


@pytest.mark.parametrize(
    ("made", "in_order", "matched", "missing", "unexpected"),
    [
        ([A, B, C], True, [A, B, C], [], []),
        ([A, C, B], True, [A, C], [B], [B]),
        ([A, C, B], False, [A, B, C], [], []),
        ([A, A, B, C], True, [A, B, C], [], [A]),
        ([C, A, B], True, [A, B], [C], [C]),
        ([], True, [], [A, B, C], []),
        ([call("d")], False, [], [A, B, C], [call("d")]),
    ],
)
def test_calls_are_matched_with_and_without_order(
    made: list[FunctionCall],
    in_order: bool,
    matched: list[FunctionCall],
    missing: list[FunctionCall],
    unexpected: list[FunctionCall],
) -> None:
    found = compare_calls([A, B, C], made, in_order=in_order)
    assert (list(found.missing), list(found.unexpected)) == (missing, unexpected)
    assert sorted(map(str, found.matched)) == sorted(map(str, matched))
    assert found.is_exact is (not missing and not unexpected)
    assert found.recall == len(matched) / 3
    assert found.precision == (len(matched) / len(made) if made else 1.0)


def test_no_expected_and_no_actual_calls_match() -> None:
    found = compare_calls([], [])
    assert (found.is_exact, found.recall, found.precision) == (True, 1.0, 1.0)


def test_the_longest_common_subsequence_is_found() -> None:
    """Compare with brute force over all sequences of up to four calls of two kinds."""
    kinds = [A, B]
    sequences = [list(made) for length in range(5) for made in itertools.product(kinds, repeat=length)]
    for expected, made in itertools.product(sequences, repeat=2):
        best = max(
            len(chosen)
            for length in range(len(expected) + 1)
            for chosen in itertools.combinations(expected, length)
            if is_subsequence(list(chosen), made)
        )
        assert len(compare_calls(expected, made).matched) == best


def is_subsequence(chosen: list[FunctionCall], made: list[FunctionCall]) -> bool:
    rest = iter(made)
    return all(wanted in rest for wanted in chosen)


def test_the_text_of_a_call() -> None:
    assert str(call("add", a=1, b="x")) == 'add(a=1, b="x")'
    assert "not a JSON object" in str(FunctionCall("add", None))
