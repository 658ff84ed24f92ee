"""The tokens of the mock engine.

A token is two bytes of UTF-8, one byte at an odd end, or one mark of the chat template. So ids are reversible and
need no vocabulary file, the vocabulary has a realistic size (65,801), and counting costs almost nothing. English
text has about twice as many of these tokens as of a real tokenizer's.

The pieces between marks are encoded separately. So a piece has the same ids wherever it occurs, and a
conversation's next prompt starts with the ids of the last one.
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
"""The first id of the single bytes; lower ids are pairs."""
_FIRST_MARK = FIRST_SINGLE + 256
_ID_OF_MARK = {mark: _FIRST_MARK + position for position, mark in enumerate(MARKS)}
_MARK_PATTERN = re.compile(f"({'|'.join(re.escape(mark) for mark in MARKS)})")


class Tokenizer(Protocol):
    """Text to token ids and back."""

    @property
    def end_of_turn(self) -> int:
        """The id that ends an assistant turn."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, including the chat template's marks."""

    def count(self, text: str) -> int:
        """Return `len(encode(text))` without building the ids."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`. Raises ValueError for an id outside the vocabulary."""


class PairTokenizer:
    """Two bytes per token: ids 0 to 65,535 are pairs, then single bytes, then the template's marks."""

    end_of_turn = _ID_OF_MARK["<|end|>"]
    vocabulary_size = _FIRST_MARK + len(MARKS)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in _MARK_PATTERN.split(text):
            mark = _ID_OF_MARK.get(piece)
            if mark is not None:
                ids.append(mark)
            else:
                ids.extend(_encode_piece(piece))
        return ids

    def count(self, text: str) -> int:
        # A piece has half as many tokens as bytes, rounded up. Marks are at the odd indices of the split.
        pieces = _MARK_PATTERN.split(text)
        if text.isascii():
            return sum((len(piece) + 1) >> 1 for piece in pieces[::2]) + len(pieces) // 2
        return sum((len(piece.encode()) + 1) >> 1 for piece in pieces[::2]) + len(pieces) // 2

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join(map(_decode_token, ids)).decode("utf-8", "replace")


@lru_cache(maxsize=1_024)  # every turn encodes the conversation's earlier pieces again
def _encode_piece(piece: str) -> Sequence[int]:
    data = piece.encode()
    pairs = len(data) >> 1
    ids = struct.unpack(f">{pairs}H", data[: pairs * 2])
    return ids if len(data) % 2 == 0 else (*ids, FIRST_SINGLE + data[-1])


def _decode_token(token: int) -> bytes:
    if 0 <= token < FIRST_SINGLE:
        return token.to_bytes(2, "big")
    if FIRST_SINGLE <= token < _FIRST_MARK:
        return bytes((token - FIRST_SINGLE,))
    if _FIRST_MARK <= token < _FIRST_MARK + len(MARKS):
        return MARKS[token - _FIRST_MARK].encode()
    raise ValueError(f"Token id {token} is outside the vocabulary of {_FIRST_MARK + len(MARKS)} ids.")


def cut(tokenizer: Tokenizer, text: str, tokens: int) -> str:
    """Return the first `tokens` tokens of `text`.

    If the cut splits a character, question marks replace it, so the result has exactly `tokens` tokens.
    """
    start = tokenizer.decode(tokenizer.encode(text)[:tokens])
    if text.startswith(start):
        return start
    start = start.rstrip("\ufffd")
    while tokenizer.count(start) < tokens:
        start += "?"
    return start


def pad(tokenizer: Tokenizer, text: str, tokens: int) -> str:
    """Return `text` with filler words up to exactly `tokens` tokens, or unchanged if it has as many already.

    Relies on one more character adding at most one token.
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
