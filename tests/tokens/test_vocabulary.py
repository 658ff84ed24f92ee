"""The bytes of ids equal those of the text that a tokenizer of each kind encoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.tokens.vocabulary import Vocabulary, read_vocabulary


def vocabulary_of(tmp_path: Path, document: dict[str, Any]) -> Vocabulary:
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(document))
    return read_vocabulary(tmp_path)


def test_byte_level_tokens_hold_parts_of_characters(tmp_path: Path) -> None:
    tokens = {"Ġthe": 0, "ä½": 1, "ł": 2, "Ċ": 3, "âĤ¬": 4, "<|im_end|>": 5}
    document = {
        "model": {"type": "BPE", "vocab": tokens},
        "decoder": {"type": "ByteLevel"},
        "added_tokens": [{"id": 5, "content": "<|im_end|>", "special": True}, {"id": 6, "content": "é"}],
    }
    vocabulary = vocabulary_of(tmp_path, document)
    assert [vocabulary.get(number) for number in range(8)] == [
        b" the",
        b"\xe4\xbd",
        b"\xa0",
        b"\n",
        "€".encode(),
        b"<|im_end|>",
        "é".encode(),
        None,
    ]
    assert (b"\xe4\xbd" + b"\xa0").decode() == "你"


def test_every_byte_has_one_character(tmp_path: Path) -> None:
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    characters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(rest)}
    document = {
        "model": {"vocab": {character: byte for byte, character in characters.items()}},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]},
    }
    vocabulary = vocabulary_of(tmp_path, document)
    assert [vocabulary.get(byte) for byte in range(256)] == [bytes([byte]) for byte in range(256)]


def test_tokens_with_byte_fallback(tmp_path: Path) -> None:
    decoders = [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    document = {
        "model": {"type": "Unigram", "vocab": [["<unk>", 0], ["▁Hi", -1], ["<0xE4>", -2], ["ä", -3]]},
        "decoder": {"type": "Sequence", "decoders": decoders},
    }
    vocabulary = vocabulary_of(tmp_path, document)
    assert [vocabulary.get(number) for number in range(4)] == [b"<unk>", b" Hi", b"\xe4", "ä".encode()]


def test_tokens_of_word_pieces(tmp_path: Path) -> None:
    document = {"model": {"vocab": {"play": 0, "##ing": 1}}, "decoder": {"type": "WordPiece"}}
    vocabulary = vocabulary_of(tmp_path, document)
    assert (vocabulary.get(0), vocabulary.get(1), len(vocabulary)) == (b"play", b"ing", 2)


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"model": {"vocab": [1]}}'])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ConfigError, match="it is not a tokenizer"):
        read_vocabulary(tmp_path / "tokenizer.json")
    with pytest.raises(ConfigError, match="No such file"):
        read_vocabulary(tmp_path / "absent")
