"""The bytes of token ids, from a tokenizer's file `tokenizer.json` (the format of Hugging Face's `tokenizers`).

A token may hold a part of a character, so that its text alone is not exact. Three kinds of vocabularies are read:

    byte level       each character of a token stands for one byte (GPT-2, Llama 3, Qwen)
    byte fallback    `▁` stands for a space, `<0x0A>` for one byte (Llama 2, Gemma, Mistral)
    other            the token is its text; `##` begins a token that continues a word (BERT)

Tokens that were added to a vocabulary, such as `<|im_end|>`, are their text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from nemo_gym.failures import ConfigError

_FILE = "tokenizer.json"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"


Vocabulary: TypeAlias = Mapping[int, bytes]
"""The bytes of each id."""


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a file `tokenizer.json`, or the one in a model's folder. Raises `ConfigError`."""
    file = path / _FILE if path.is_dir() else path
    try:
        return dict(_tokens_in(orjson.loads(file.read_bytes())))
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from error
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(file, f"it is not a tokenizer: {error}") from error


def read_token_texts(path: Path) -> Vocabulary:
    """Read the texts of a run's ids, as `write_token_texts` writes them. A missing or damaged file has none."""
    try:
        texts = orjson.loads(path.read_bytes())
        return {int(token): text.encode() for token, text in texts.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _unreadable(file: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"cannot read the tokenizer {file}: {reason}",
        code="tokenizer_unreadable",
        remedy=f"Name a file `{_FILE}`, or a model's folder that has one.",
    )


def _tokens_in(document: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    """Yield the ids and bytes of a parsed file; added tokens last, because they replace others."""
    vocabulary = document["model"]["vocab"]
    to_bytes = _choose_reader(document)
    if isinstance(vocabulary, list):  # Unigram: a token and its score
        yield from ((number, to_bytes(token)) for number, (token, _) in enumerate(vocabulary))
    else:
        yield from ((number, to_bytes(token)) for token, number in vocabulary.items())
    for added in document.get("added_tokens") or ():
        yield added["id"], added["content"].encode()


def _choose_reader(document: Mapping[str, Any]) -> Callable[[str], bytes]:
    kinds = {part["type"] for part in _parts(document.get("decoder"))}
    kinds |= {part["type"] for part in _parts(document.get("pre_tokenizer"))}
    if "ByteLevel" in kinds:
        return _read_byte_level
    return _read_word_piece if "WordPiece" in kinds else _read_byte_fallback


def _parts(component: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a component of the pipeline, or the components of a sequence."""
    if not isinstance(component, Mapping):
        return
    yield from component.get("decoders") or component.get("pretokenizers") or [component]


def _read_byte_level(token: str) -> bytes:
    table = _map_characters()
    if all(character in table for character in token):
        return bytes(table[character] for character in token)
    return token.encode()


def _read_byte_fallback(token: str) -> bytes:
    byte = _BYTE.fullmatch(token)
    return bytes.fromhex(byte[1]) if byte else token.replace(_SPACE, " ").encode()


def _read_word_piece(token: str) -> bytes:
    return token.removeprefix("##").encode()


@cache
def _map_characters() -> Mapping[str, int]:
    """Return the byte that each character stands for in byte-level vocabularies.

    Printable characters of Latin-1 stand for themselves, and the other bytes, in order, are the characters from 256.
    """
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + place): byte for place, byte in enumerate(others)}
