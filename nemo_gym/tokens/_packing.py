"""The ids and log-probabilities of one call as a short ASCII string.

The bytes are two little-endian 32-bit counts, the prompt's ids and the generated ids as 32-bit unsigned integers, and
the log-probabilities as 32-bit floats, compressed with zstd and written in base64. Engines compute log-probabilities in
32 bits, so this is lossless.
"""

from __future__ import annotations

import base64
import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from nemo_gym.tokens.ids import ID_BYTES, decode_ids, encode_ids, little_endian

_COUNTS = struct.Struct("<II")
_LEVEL = 3
_LARGEST = 1 << 30
"""Maximum size of an unpacked call in bytes, about 90 million tokens. A larger size means a damaged or hostile file."""


class CallTokens(NamedTuple):
    """The ids that one call added to those of its base."""

    prompt: list[int]
    """The ids of the prompt, without those of the base."""
    generated: list[int]
    logprobs: list[float]
    """One natural logarithm for each generated id."""


def pack(tokens: CallTokens) -> str:
    """Pack `tokens`. Raises ValueError if the lists' lengths differ or a value is not a token id."""
    if len(tokens.generated) != len(tokens.logprobs):
        raise ValueError(f"{len(tokens.generated)} ids with {len(tokens.logprobs)} log-probabilities")
    import zstandard

    plain = (
        _COUNTS.pack(len(tokens.prompt), len(tokens.generated))
        + encode_ids(tokens.prompt)
        + encode_ids(tokens.generated)
        + _encode_floats(tokens.logprobs)
    )
    return base64.b64encode(zstandard.ZstdCompressor(level=_LEVEL).compress(plain)).decode("ascii")


def unpack(packed: str) -> CallTokens:
    """Unpack the output of `pack`. Raises ValueError for any other string."""
    import zstandard

    try:
        compressed = base64.b64decode(packed, validate=True)
        if not 0 < zstandard.frame_content_size(compressed) <= _LARGEST:
            raise ValueError("the size in the header is impossible")
        plain = zstandard.ZstdDecompressor().decompress(compressed)
        prompt, generated = _COUNTS.unpack_from(plain)
    except (ValueError, struct.error, zstandard.ZstdError) as error:
        raise ValueError(f"not packed token ids: {error}") from error
    middle = _COUNTS.size + prompt * ID_BYTES
    end = middle + generated * ID_BYTES
    if len(plain) != end + generated * ID_BYTES:
        raise ValueError("not packed token ids: the counts and the length disagree")
    return CallTokens(
        decode_ids(plain[_COUNTS.size : middle]), decode_ids(plain[middle:end]), _decode_floats(plain[end:])
    )


def _encode_floats(values: Sequence[float]) -> bytes:
    return little_endian(array("f", values)).tobytes()


def _decode_floats(encoded: bytes) -> list[float]:
    return little_endian(array("f", encoded)).tolist()
