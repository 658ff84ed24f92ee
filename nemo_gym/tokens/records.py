"""The record of one model call, stored under `_ng_tokens` on the last output item of the call.

A record holds the sampling fields of the call and the ids that it adds to an earlier call, its *base*, so that ids
are sent and stored once. A call is identified by the fingerprint of its whole sequence (prompt and generated ids).
Fingerprints stay unique across server restarts and several models, and verify the ids when they are rebuilt.
"""

from __future__ import annotations

import base64
import struct
from array import array
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from nemo_gym.names import TOKEN_RECORD_KEY
from nemo_gym.responses.dialects import TRAINING_FIELDS
from nemo_gym.tokens.capture import Capture, find_logprobs_fault
from nemo_gym.tokens.ids import ID_BYTES, decode_ids, encode_floats, encode_ids, little_endian
from nemo_gym.tokens.light_parsing import read_ids
from nemo_gym.tokens.linkage import CallLink
from nemo_gym.tokens.reasons import MaskReason, SegmentReason, UntrainedReason

__all__ = ["CARRIED_FIELDS", "RECORD_FIELD", "CallRecord", "TokenForm"]

RECORD_FIELD = TOKEN_RECORD_KEY
"""The field of the record, on the last output item of a call or on its message."""
CARRIED_FIELDS = frozenset({*TRAINING_FIELDS, RECORD_FIELD})
"""Fields that a model server adds to items and messages, and removes from requests to the engine."""
CONTRACT_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
"""The fields that trainers read. Each call repeats its whole prompt, so a row grows quadratically with its turns."""

OUT_OF_SEQUENCE = "out_of_sequence"
"""In a record: the call is left out of the contract's fields, because its prompt does not extend the sequence."""
FOR_CONTRACT = "for_contract"
"""In a record: its ids are in lists, and whoever writes the row puts them into the contract's fields."""

PolicyVersion: TypeAlias = int | str


class TokenForm(StrEnum):
    """The form of ids on output items."""

    CONTRACT = "contract"
    """The three fields that trainers read. Calls after a drift are packed."""
    PACKED = "packed"
    """The new ids of each call, compressed."""
    LISTS = "lists"
    """The new ids of each call, as plain lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One model call."""

    call: int | None = None
    """The number of the call in its session, counting masked calls; None if ids were not requested."""
    masked: MaskReason | None = None
    """The reason why the call has no ids and is not trained on."""
    sequence: str | None = None
    """The fingerprint of its prompt and generated ids."""
    base: str | None = None
    """The fingerprint of the earlier call with whose ids the prompt begins."""
    kept: int = 0
    """The number of the base's ids with which the prompt begins."""
    reason: SegmentReason | None = None
    """The reason for a new segment; None if the call extends its base or is the first."""
    tokens: CallTokens | None = None
    """The new ids: `prompt` holds those after the `kept` ones. None if the call is masked."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """The sampling fields as sent to the engine."""
    finish: str | None = None
    """A `responses.FinishKind`."""
    stop: int | str | None = None
    """The stop token or string that ended it."""
    policy_version: PolicyVersion | None = None
    """The policy's version when the call began."""
    policy_version_end: PolicyVersion | None = None
    """The policy's version when the call ended, if it had changed."""
    versions: Sequence[tuple[int, PolicyVersion | None]] = ()
    """The first sampled token and the version of each part of an answer that several versions sampled."""
    untrained: UntrainedReason | None = None
    """The reason why its tokens are context only, although they are usable."""

    @property
    def is_under_grammar(self) -> bool:
        """Return whether the engine sampled it under a grammar: a forced tool call, a JSON schema."""
        return bool(self.sampling.get("grammar"))

    def list_versions(self, count: int, otherwise: int) -> list[int]:
        """Return the version of each of its `count` sampled tokens. `otherwise`: that of parts without a number.

        Without `versions` all are of the first version.
        """
        parts = self.versions or [(0, self.policy_version)]
        ends = [*(start for start, _ in parts[1:]), count]
        return [
            version if type(version) is int else otherwise
            for (start, version), end in zip(parts, ends, strict=True)
            for _ in range(start, end)
        ]

    def to_wire(self, form: TokenForm, *, in_sequence: bool = True) -> dict[str, Any]:
        """Return the value of `_ng_tokens`.

        `in_sequence` is true if the prompt extends all earlier ids of the row. In the form `contract` the ids of such
        calls are in the contract's fields; those of other calls are packed and marked `out_of_sequence`.
        """
        wire: dict[str, Any] = {
            name: value for name, absent in _FIELDS.items() if (value := getattr(self, name)) != absent
        }
        if self.tokens is None or (form is TokenForm.CONTRACT and in_sequence):
            return wire
        if form is TokenForm.CONTRACT:
            wire[OUT_OF_SEQUENCE] = True
        wire["ids"] = self.tokens._asdict() if form is TokenForm.LISTS else pack(self.tokens)
        return wire

    @classmethod
    def from_capture(cls, capture: Capture, link: CallLink, **about: Any) -> CallRecord:
        """Return the record of a captured call. `about` holds its descriptive fields."""
        added = decode_ids(capture.prompt.encoded[link.kept * ID_BYTES :])
        tokens = CallTokens(added, capture.generated_ids, capture.logprobs)
        return cls(
            call=link.call,
            sequence=link.sequence,
            base=link.base,
            kept=link.kept,
            reason=link.reason,
            tokens=tokens,
            **about,
        )


_FIELDS = {
    each.name: getattr(CallRecord(), each.name) for each in fields(CallRecord) if each.name != "tokens"
}
"""The fields beside the tokens, and their values by default, which `_ng_tokens` leaves out."""
_REASONS: Mapping[str, type[StrEnum]] = {
    "masked": MaskReason,
    "reason": SegmentReason,
    "untrained": UntrainedReason,
}


def read_record(item: Mapping[str, Any], known: Container[str] = frozenset()) -> CallRecord | None:
    """Return the record on an output item or message, or None.

    `known` holds the fingerprints of possible bases. The contract's fields hold the whole prompt, so a record in them
    whose base is not known is read without a base. A damaged record is returned as masked, so the row stays usable.
    """
    wire = item.get(RECORD_FIELD)
    if wire is None:
        return None
    try:
        record = _parse(wire)
        if record.masked:
            return record
        if wire.get("ids") is not None:
            return _add_tokens(record, _read_tokens(wire["ids"]))
        whole = contract_tokens(item)
        if whole is None:
            return record
        if record.base not in known:
            return _add_tokens(replace(record, base=None, kept=0), whole)
        return _add_tokens(record, whole._replace(prompt=whole.prompt[record.kept :]))
    except (ValueError, TypeError, AttributeError, KeyError):
        return CallRecord(masked=MaskReason.DAMAGED_RECORD)


def drop_tokens(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item without token ids and log-probabilities; the same object if it has none."""
    if CARRIED_FIELDS.isdisjoint(item):
        return item
    return {name: value for name, value in item.items() if name not in CARRIED_FIELDS}


def contract_tokens(item: Mapping[str, Any]) -> CallTokens | None:
    """Return the tokens in the contract's fields, with the whole prompt; None if no ids were generated."""
    prompt, generated, logprobs = (item.get(name) for name in CONTRACT_FIELDS)
    prompt = read_ids(prompt)
    return CallTokens(prompt or [], generated, logprobs or []) if generated else None


def find_tokens_fault(tokens: CallTokens) -> MaskReason | None:
    """Return the defect that prevents training on `tokens`, or None."""
    try:
        encode_ids(tokens.prompt)
        encode_ids(tokens.generated)
    except ValueError:
        return MaskReason.INVALID_TOKEN_IDS
    return find_logprobs_fault(tokens.logprobs, len(tokens.generated))


def _add_tokens(record: CallRecord, tokens: CallTokens) -> CallRecord:
    masked = find_tokens_fault(tokens)
    return replace(record, masked=masked) if masked else replace(record, tokens=tokens)


def _read_tokens(ids: Any) -> CallTokens:
    return unpack(ids) if isinstance(ids, str) else CallTokens(**ids)


def _are_parts(versions: Any) -> bool:
    """Return whether a value is the list of an answer's parts: first tokens that rise from 0, and versions."""
    if not isinstance(versions, list) or not all(
        isinstance(each, list) and len(each) == 2 for each in versions
    ):
        return False
    starts = [start for start, _ in versions]
    return (
        all(type(start) is int for start in starts) and starts == sorted(starts) and starts[:1] in ([], [0])
    )


def _parse(wire: Mapping[str, Any]) -> CallRecord:
    names_are_texts = all(isinstance(wire.get(name), str | None) for name in ("sequence", "base"))
    if (
        type(wire.get("kept", 0)) is not int
        or not names_are_texts
        or not isinstance(wire.get("sampling"), Mapping | None)
        or not _are_parts(wire.get("versions") or [])
    ):
        raise ValueError("not a record")
    given = {name: value for name in _FIELDS if (value := wire.get(name)) is not None}
    reasons = {name: reason(given[name]) for name, reason in _REASONS.items() if name in given}
    return CallRecord(**(given | reasons))


# --- Packed ids and log-probabilities ---------------------------------------------------------------------------------
# The ids and log-probabilities of one call as a short ASCII string.
# The bytes are two little-endian 32-bit counts, the prompt's ids and the generated ids as 32-bit unsigned integers,
# and the log-probabilities as 32-bit floats, compressed with zstd and written in base64. Engines compute log-
# probabilities in 32 bits, so this is lossless.


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
        + encode_floats(tokens.logprobs)
    )
    return base64.b64encode(zstandard.ZstdCompressor(level=_LEVEL).compress(plain)).decode("ascii")


def unpack(packed: str) -> CallTokens:
    """Unpack the output of `pack`. Raises ValueError for any other string."""
    prompt, generated, logprobs = _unpack_parts(packed)
    return CallTokens(decode_ids(prompt), decode_ids(generated), _decode_floats(logprobs))


def unpack_ids(packed: str) -> Iterable[int]:
    """Return all ids in the output of `pack`. Raises ValueError for any other string."""
    prompt, generated, _ = _unpack_parts(packed)
    return little_endian(array("I", prompt + generated))


def _unpack_parts(packed: str) -> tuple[bytes, bytes, bytes]:
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
    return plain[_COUNTS.size : middle], plain[middle:end], plain[end:]


def _decode_floats(encoded: bytes) -> list[float]:
    return little_endian(array("f", encoded)).tolist()
