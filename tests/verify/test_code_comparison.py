from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.verify._code_comparison import check_program, check_return_value, is_same_output
from nemo_gym.verify._code_harness import dump
from nemo_gym.verify._code_verdicts import Reason, SolutionFailed


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("1 2\n3\n", "1 2\n3"),
        ("1 2 \n\n3", "  1  2\r\n3\n\n"),
        ("0.333333", "0.3333333333"),
        ("1e3", "1000"),
        ("2.0", "2"),
        ("2.9999999", "3"),
        ("YES", "YES\n"),
        ("", "\n"),
    ],
)
def test_the_same_output(expected: str, printed: str) -> None:
    assert is_same_output(expected, printed, 1e-6)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("1 2\n3", "1\n2 3"),
        ("2", "2.0"),
        ("YES", "yes"),
        ("0.333333", "0.34"),
        ("1.5", "1_5"),
        ("1.5", "nan"),
        ("1e309", "1e310"),
        ("1.0", "x"),
        ("1", ""),
        ("", "1"),
        ("1", "1 1"),
        ("1000000.0", "1000001"),
        ("1e6", "1000001"),
        ("1", "1\n1"),
    ],
)
def test_other_output(expected: str, printed: str) -> None:
    assert not is_same_output(expected, printed, 1e-6)


@pytest.mark.parametrize(
    ("expected", "returned", "is_same"),
    [
        ([1, [2]], (1, (2,)), True),
        ({"1": None}, {1: None}, True),
        ({"true": 1, "null": 2}, {True: 1, None: 2}, True),
        (0.3, 0.1 + 0.2, True),
        (1, 1.0, True),
        (1, True, False),
        (None, False, False),
        ("1", 1, False),
        ([1, 2], {1, 2}, False),
        ([], {}, False),
        (1, 1.1, False),
        (10, 10.000001, False),
        (1_000_000, 1_000_000.5, False),
        (1_000_000.0, 1_000_001, False),
        (10**400, 10**400 + 1, False),
        (10**400, 1.5, False),
        ({"1": 1}, {(1,): 1}, False),
    ],
)
def test_return_values_are_compared_as_json(expected: Any, returned: Any, is_same: bool) -> None:
    failed = failure_of(dump(returned).encode(), expected)
    assert (failed is None) is is_same
    assert failed is None or failed.reason is Reason.WRONG_ANSWER


def failure_of(reply: bytes, *accepted: Any) -> SolutionFailed | None:
    try:
        check_return_value(reply, "f", accepted, 1e-6)
    except SolutionFailed as failed:
        return failed
    return None


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b'{"int":"0x' + b"f" * 6000 + b'"}', Reason.WRONG_ANSWER),
        (b"1" * 6000, Reason.BROKEN_PROTOCOL),
        (b"[" * 100_000, Reason.BROKEN_PROTOCOL),
        (b'{"dict":[[' + b'{"int":"0x' + b"f" * 6000 + b'"},0]]}', Reason.NOT_PLAIN_DATA),
        (b'{"opaque":"unittest.mock._ANY"}', Reason.NOT_PLAIN_DATA),
        (b'[{"opaque":"x.y"}]', Reason.NOT_PLAIN_DATA),
        (b'{"tuple":1}', Reason.NOT_PLAIN_DATA),
        (b'{"what":[]}', Reason.WRONG_ANSWER),
        (b'{"set":[[1]]}', Reason.WRONG_ANSWER),
        (b"{}", Reason.NOT_PLAIN_DATA),
        (b'{"int":"xyz"}', Reason.NOT_PLAIN_DATA),
        (b"null", Reason.WRONG_ANSWER),
        (b"\xff", Reason.BROKEN_PROTOCOL),
        (b"", Reason.BROKEN_PROTOCOL),
    ],
)
def test_every_fault_of_a_returned_value_is_a_failure_of_the_solution(reply: bytes, reason: Reason) -> None:
    failed = failure_of(reply, 1, [1], {"a": 1})
    assert failed is not None
    assert failed.reason is reason
    assert len(failed.detail) < 300


def test_keys_that_collide_are_read_in_linear_time() -> None:
    colliding = {number * (2**61 - 1): 0 for number in range(4)}
    assert len({hash(key) for key in colliding}) == 1
    pairs = ",".join(f"[{number * (2**61 - 1)},0]" for number in range(200_000))
    failed = failure_of(
        f'{{"dict":[{pairs}]}}'.encode(), {"1": 0}
    )  # hashed as integers, they would take an hour
    assert failed is not None
    assert failed.reason is Reason.WRONG_ANSWER


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b'{"status":0,"stdout":"1","stderr":""}', None),
        (b'{"status":0,"stdout":"2","stderr":""}', Reason.WRONG_ANSWER),
        (b'{"status":0,"stdout":null,"stderr":""}', Reason.OUTPUT_EXCEEDED),
        (b'{"status":1,"stdout":"1","stderr":"x\\nKeyError: 1"}', Reason.RAISED),
        (b'{"status":-9,"stdout":"1","stderr":""}', Reason.PROCESS_ENDED),
        (b'{"status":"0","stdout":"1"}', Reason.BROKEN_PROTOCOL),
        (b'{"status":0,"stdout":["1"]}', Reason.BROKEN_PROTOCOL),
        (b"[]", Reason.BROKEN_PROTOCOL),
        (b"{", Reason.BROKEN_PROTOCOL),
    ],
)
def test_every_fault_of_a_program_is_a_failure_of_the_solution(reply: bytes, reason: Reason | None) -> None:
    if reason is None:
        check_program(reply, "1", 0.0)
        return
    with pytest.raises(SolutionFailed) as caught:
        check_program(reply, "1", 0.0)
    assert caught.value.reason is reason
