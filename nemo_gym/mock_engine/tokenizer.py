"""The tokens of the mock engine.

A token is two bytes of UTF-8, or one byte at an odd end, or one mark of the chat template. That makes ids
reversible, independent of any vocabulary file, of a size like a real vocabulary's (65,801), and so cheap to
count that a benchmark doesn't see it. English text has about twice as many of these tokens as of a real
tokenizer's.

A text is encoded piece by piece between the marks. What stands between two marks therefore has the same
ids wherever it occurs, and a conversation's next prompt starts with the ids of the last one.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

MARKS = (
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
)
"""The chat template's marks, one token each."""

FILLER = " and so on"

FIRST_SINGLE = 1 << 16
"""The first id of the single bytes, which follow the pairs."""
_FIRST_MARK = FIRST_SINGLE + 256
_ID_OF_MARK = {mark: _FIRST_MARK + position for position, mark in enumerate(MARKS)}
_MARK_PATTERN = re.compile(f"({'|'.join(re.escape(mark) for mark in MARKS)})")


class Tokenizer(Protocol):
    """Text to token ids and back. Swap in another to test what a less kind tokenizer breaks."""

    @property
    def end_of_turn(self) -> int:
        """The id that ends an assistant's turn."""

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, marks of the chat template included."""

    def count(self, text: str) -> int:
        """`len(encode(text))`, without making the ids."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`. Raises ValueError for an id outside the vocabulary."""


class PairTokenizer:
    """Two bytes a token: ids 0 to 65,535 are pairs, then single bytes, then the template's marks."""

    end_of_turn = _ID_OF_MARK["<|end|>"]
    vocabulary_size = _FIRST_MARK + len(MARKS)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in _MARK_PATTERN.split(text):
            mark = _ID_OF_MARK.get(piece)
            if mark is not None:
                ids.append(mark)
            else:
                ids.extend(_ids_of(piece))
        return ids

    def count(self, text: str) -> int:
        # A piece's tokens are half its bytes, rounded up; a mark sits at every odd place of the split.
        pieces = _MARK_PATTERN.split(text)
        if text.isascii():
            return sum((len(piece) + 1) >> 1 for piece in pieces[::2]) + len(pieces) // 2
        return sum((len(piece.encode()) + 1) >> 1 for piece in pieces[::2]) + len(pieces) // 2

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join(map(_bytes_of, ids)).decode("utf-8", "replace")


@lru_cache(maxsize=1_024)  # a conversation's earlier pieces come back with every turn
def _ids_of(piece: str) -> Sequence[int]:
    data = piece.encode()
    pairs = len(data) >> 1
    ids = struct.unpack(f">{pairs}H", data[: pairs * 2])
    return ids if len(data) % 2 == 0 else (*ids, FIRST_SINGLE + data[-1])


def _bytes_of(token: int) -> bytes:
    if 0 <= token < FIRST_SINGLE:
        return token.to_bytes(2, "big")
    if FIRST_SINGLE <= token < _FIRST_MARK:
        return bytes((token - FIRST_SINGLE,))
    if _FIRST_MARK <= token < _FIRST_MARK + len(MARKS):
        return MARKS[token - _FIRST_MARK].encode()
    raise ValueError(f"Token id {token} is outside the vocabulary of {_FIRST_MARK + len(MARKS)} ids.")


def cut(tokenizer: Tokenizer, text: str, tokens: int) -> str:
    """The first `tokens` tokens of `text`.

    Where the last of them stops inside a character, question marks stand in for the character: the cut text
    is whole characters and still has exactly `tokens` tokens, as the count of a real engine has.
    """
    start = tokenizer.decode(tokenizer.encode(text)[:tokens])
    if text.startswith(start):
        return start
    start = start.rstrip("\ufffd")
    while tokenizer.count(start) < tokens:
        start += "?"
    return start


def pad(tokenizer: Tokenizer, text: str, tokens: int) -> str:
    """`text`, lengthened by filler words to exactly `tokens`; unchanged where it is as long already.

    Relies on one more character being one more token at most.
    """
    missing = tokens - tokenizer.count(text)
    if missing <= 0:
        return text
    sample = FILLER * 8
    length = missing * len(sample) // tokenizer.count(sample)
    while True:
        padded = text + (FILLER * (length // len(FILLER) + 1))[:length]
        still_missing = tokens - tokenizer.count(padded)
        if still_missing == 0:
            return padded
        length += still_missing
