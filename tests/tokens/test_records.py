"""A damaged record is masked, and the row stays usable."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.reasons import MaskReason
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord, CallTokens, pack, read_record, unpack
from nemo_gym.tokens.segments import build_segments
from tests.tokens.token_rows import drifting_row


async def damaged(**changes: Any) -> list[CallRecord]:
    """The calls of a packed row whose second record is changed."""
    row = await drifting_row("packed")
    items = [item for item in row["response"]["output"] if RECORD_FIELD in item]
    items[1][RECORD_FIELD] = {**items[1][RECORD_FIELD], **changes}
    return read_calls(row)


@pytest.mark.parametrize(
    "changes",
    [
        {"ids": "AAAA"},
        {"ids": {"prompt": [1], "generated": [2], "logprobs": [-0.5]}},
        {"ids": {"prompt": [1]}},
        {"ids": 5},
        {"sequence": "0" * 16},
        {"sequence": None},
        {"kept": 10**6},
        {"kept": -1},
        {"kept": "1"},
        {"reason": "bad weather"},
        {"sampling": []},
        {"sampling": "greedy"},
    ],
)
async def test_a_damaged_record_is_masked_and_what_builds_on_it_too(changes: dict[str, Any]) -> None:
    records = await damaged(**changes)
    assert records[1].masked is MaskReason.DAMAGED_RECORD
    assert records[0].masked is None
    assert all(record.masked in (None, MaskReason.MISSING_BASE) for record in records[2:])
    build_segments(records)


def test_a_record_that_is_no_object_is_damaged() -> None:
    values: list[Any] = ["x", 5, []]
    for value in values:
        record = read_record({RECORD_FIELD: value})
        assert record is not None
        assert record.masked is MaskReason.DAMAGED_RECORD


# --- Packed ids and log-probabilities ---------------------------------------------------------------------------------


ids = st.lists(st.integers(0, 2**32 - 1), max_size=20)
logprobs = st.floats(-100, 0, width=32)


@given(ids, st.lists(st.tuples(st.integers(0, 200_000), logprobs), max_size=20))
def test_tokens_come_back(prompt: list[int], sampled: list[tuple[int, float]]) -> None:
    tokens = CallTokens(prompt, [token for token, _ in sampled], [logprob for _, logprob in sampled])
    assert unpack(pack(tokens)) == tokens


def test_lists_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="2 ids with 1"):
        pack(CallTokens([], [1, 2], [-0.5]))


def compressed(plain: bytes) -> str:
    return base64.b64encode(zstandard.compress(plain)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not base64!",
        "aGVsbG8=",
        pack(CallTokens([1], [2], [-1.0]))[:-8],
        compressed(b""),
        compressed(struct.pack("<II", 1, 0)),
        compressed(struct.pack("<II", 2**31, 2**31)),
    ],
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not packed token ids"):
        unpack(text)


def test_an_impossible_size_is_refused() -> None:
    claims_a_terabyte = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40)
    with pytest.raises(ValueError, match="size in the header is impossible"):
        unpack(base64.b64encode(claims_a_terabyte).decode())


def test_numbers_are_little_endian_32_bit() -> None:
    packed = base64.b64decode(pack(CallTokens([1], [258], [-0.5])))
    assert zstandard.decompress(packed) == struct.pack("<IIIIf", 1, 1, 1, 258, -0.5)
