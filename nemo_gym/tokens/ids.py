"""Growing sequences of token ids, and their fingerprints.

A conversation of 100,000 tokens is compared, extended and fingerprinted on every turn. Ids are stored as
little-endian 32-bit numbers, which compare as fast as memory, and the hash is updated incrementally. Equal
fingerprints mean equal ids (64 bits of BLAKE2b).
"""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from collections.abc import Sequence
from typing import TypeVar

import orjson

ID_BYTES = 4
"""Bytes of one encoded id."""
FINGERPRINT_BYTES = 8

_Number = TypeVar("_Number", int, float)


def encode_ids(ids: Sequence[int]) -> bytes:
    """Return ids as bytes. Raises ValueError unless `ids` is a list of integers from 0 to 2^32 - 1."""
    if not isinstance(ids, list | tuple):
        raise ValueError(f"not a list of token ids but a {type(ids).__name__}")
    try:
        numbers = array("I", ids)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"not a list of token ids: {error}") from error
    return little_endian(numbers).tobytes()


def write_ids(ids: Sequence[int]) -> bytes:
    """Return ids in JSON, without white space and brackets."""
    return orjson.dumps(ids)[1:-1]


def decode_ids(encoded: bytes | bytearray) -> list[int]:
    return little_endian(array("I", encoded)).tolist()


def encode_floats(values: Sequence[float]) -> bytes:
    """Return numbers as little-endian 32-bit floats. Raises ValueError for other values and for larger ones."""
    try:
        return struct.pack(f"<{len(values)}f", *values)  # three times as fast as an array
    except (struct.error, OverflowError) as error:
        raise ValueError(f"not a list of 32-bit numbers: {error}") from error


def little_endian(numbers: array[_Number]) -> array[_Number]:
    """Swap the bytes of `numbers` in place on a big-endian machine, and return it."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


class IdSequence:
    """An append-only sequence of ids."""

    __slots__ = ("_encoded", "_hash")

    def __init__(self, encoded: bytes | bytearray = b"") -> None:
        self._encoded = bytearray(encoded)
        self._hash = hashlib.blake2b(encoded, digest_size=FINGERPRINT_BYTES)

    def __len__(self) -> int:
        """Return the number of ids."""
        return len(self._encoded) // ID_BYTES

    def extend(self, encoded: bytes) -> None:
        self._encoded += encoded
        self._hash.update(encoded)

    @property
    def fingerprint(self) -> str:
        """The hash of these ids: 16 hexadecimal digits."""
        return self._hash.hexdigest()

    def begins(self, encoded: bytes) -> bool:
        """Return whether `encoded` begins with these ids."""
        return encoded.startswith(self._encoded)

    def count_shared(self, encoded: bytes) -> int:
        """Return the length of the common prefix in ids, found by bisection."""
        ours, low, high = self._encoded, 0, min(len(self._encoded), len(encoded)) // ID_BYTES
        while low < high:  # the first `low` ids are equal; the prefix is at most `high` ids long
            middle = (low + high + 1) // 2
            part = slice(low * ID_BYTES, middle * ID_BYTES)
            if ours[part] == encoded[part]:
                low = middle
            else:
                high = middle - 1
        return low

    def encode(self, start: int = 0, end: int | None = None) -> bytes:
        """Return the ids from `start` up to `end` as bytes."""
        return bytes(self._encoded[start * ID_BYTES : None if end is None else end * ID_BYTES])

    def ids(self, start: int = 0, end: int | None = None) -> list[int]:
        return decode_ids(self.encode(start, end))
