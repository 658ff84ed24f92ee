"""Packed tokens are unpacked exactly, and invalid packed data is an error."""

from __future__ import annotations

import base64
import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.tokens._packing import CallTokens, pack, unpack

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
