"""The record of one model call, as it travels: on the last item of the call's output, under `_ng_tokens`.

A record says how the call was sampled and how its tokens follow from those of an earlier call, its *base*, so that
ids travel and are stored once. Calls are named by the fingerprint of their whole sequence (prompt and generated
ids): no numbering can clash when a server restarts or several models take part, and whoever puts the ids together
again can prove that they are the same.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from nemo_gym.responses.dialects import TRAINING_FIELDS
from nemo_gym.tokens._packing import CallTokens, pack, unpack
from nemo_gym.tokens.capture import Capture, fault_of_logprobs
from nemo_gym.tokens.ids import encode_ids
from nemo_gym.tokens.linkage import CallLink
from nemo_gym.tokens.reasons import MaskReason, SegmentReason

RECORD_FIELD = "_ng_tokens"
"""Where the record of a call is, on its last output item or its message."""
CARRIED_FIELDS = frozenset({*TRAINING_FIELDS, RECORD_FIELD})
"""What a model server adds to items and messages, and what goes back to no engine."""
CONTRACT_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
"""What trainers read: the whole prompt of every call, so that a rollout's size grows with the square of its turns."""

OUT_OF_SEQUENCE = "out_of_sequence"
"""In a record: its call is left out of the contract's fields, because a trainer couldn't append its prompt."""

PolicyVersion: TypeAlias = int | str


class TokenForm(StrEnum):
    """How ids are written on output items."""

    CONTRACT = "contract"
    """In the three fields that trainers read. Calls after a drift don't fit there: theirs are packed."""
    PACKED = "packed"
    """What is new in each call, compressed."""
    LISTS = "lists"
    """What is new in each call, as plain lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One model call."""

    call: int | None = None
    """The number of the call in its session, masked ones included; None where ids weren't asked for."""
    masked: MaskReason | None = None
    """Why nothing of it is trained on; then it has no ids."""
    sequence: str | None = None
    """The fingerprint of its prompt and generated ids."""
    base: str | None = None
    """The call, by its fingerprint, with whose ids the prompt begins."""
    kept: int = 0
    """How many of the base's ids the prompt begins with."""
    reason: SegmentReason | None = None
    """Why it begins a segment; None when it extends its base, or is the first."""
    tokens: CallTokens | None = None
    """`prompt` holds the ids that follow the `kept` ones. None when the call is masked."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """What the engine was asked for, as sent."""
    finish: str | None = None
    """How the generation ended, as `responses.FinishKind` has it."""
    stop: int | str | None = None
    """The stop token or string that ended it."""
    policy_version: PolicyVersion | None = None
    """The policy's version when the call began."""
    policy_version_end: PolicyVersion | None = None
    """Its version when the call ended, where that was another one."""

    @property
    def has_ids(self) -> bool:
        """Whether it can be trained on."""
        return self.tokens is not None

    def to_wire(self, form: TokenForm, *, in_sequence: bool = True) -> dict[str, Any]:
        """The value of `_ng_tokens`.

        In the form `contract` the ids stand in the contract's fields, of calls that are `in_sequence`: whose prompts
        begin with all that was seen before. Those of others are packed, and say that they are left out there.
        """
        fields = {
            "call": self.call,
            "masked": self.masked,
            "sequence": self.sequence,
            "base": self.base,
            "kept": self.kept or None,
            "reason": self.reason,
            "sampling": dict(self.sampling) or None,
            "finish": self.finish,
            "stop": self.stop,
            "policy_version": self.policy_version,
            "policy_version_end": self.policy_version_end,
        }
        wire: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        if self.tokens is None or (form is TokenForm.CONTRACT and in_sequence):
            return wire
        if form is TokenForm.CONTRACT:
            wire[OUT_OF_SEQUENCE] = True
        wire["ids"] = self.tokens._asdict() if form is TokenForm.LISTS else pack(self.tokens)
        return wire

    @classmethod
    def linked(cls, capture: Capture, link: CallLink, **about: Any) -> CallRecord:
        """The record of a call whose ids are known; `about` are the fields that describe it."""
        tokens = CallTokens(capture.prompt_ids[link.kept :], capture.generated_ids, capture.logprobs)
        return cls(
            call=link.call,
            sequence=link.sequence,
            base=link.base,
            kept=link.kept,
            reason=link.reason,
            tokens=tokens,
            **about,
        )


def read_record(item: Mapping[str, Any], known: Container[str] = frozenset()) -> CallRecord | None:
    """The record on an output item or message; None when there is none.

    `known` are the calls that a record may build on. One in the contract's fields, which hold the whole prompt, builds
    on none where its base isn't among them. A record that can't be read is masked: the row stays usable for all else.
    """
    wire = item.get(RECORD_FIELD)
    if wire is None:
        return None
    try:
        record = _parse(wire)
        if record.masked:
            return record
        if wire.get("ids") is not None:
            return _with_tokens(record, _tokens_of(wire["ids"]))
        whole = contract_tokens(item)
        if whole is None:
            return record
        if record.base not in known:
            return _with_tokens(replace(record, base=None, kept=0), whole)
        return _with_tokens(record, whole._replace(prompt=whole.prompt[record.kept :]))
    except (ValueError, TypeError, AttributeError, KeyError):
        return CallRecord(masked=MaskReason.DAMAGED_RECORD)


def contract_tokens(item: Mapping[str, Any]) -> CallTokens | None:
    """What stands in the contract's fields, with the whole prompt; None where nothing was generated."""
    prompt, generated, logprobs = (item.get(name) for name in CONTRACT_FIELDS)
    return CallTokens(prompt or [], generated, logprobs or []) if generated else None


def fault_of_tokens(tokens: CallTokens) -> MaskReason | None:
    """Why `tokens` can't be trained on, if they can't."""
    try:
        encode_ids(tokens.prompt)
        encode_ids(tokens.generated)
    except ValueError:
        return MaskReason.INVALID_TOKEN_IDS
    return fault_of_logprobs(tokens.logprobs, len(tokens.generated))


def _with_tokens(record: CallRecord, tokens: CallTokens) -> CallRecord:
    masked = fault_of_tokens(tokens)
    return replace(record, masked=masked) if masked else replace(record, tokens=tokens)


def _tokens_of(ids: Any) -> CallTokens:
    return unpack(ids) if isinstance(ids, str) else CallTokens(**ids)


def _parse(wire: Mapping[str, Any]) -> CallRecord:
    masked, reason, kept = wire.get("masked"), wire.get("reason"), wire.get("kept", 0)
    if type(kept) is not int or not all(
        isinstance(wire.get(name), str | None) for name in ("sequence", "base")
    ):
        raise ValueError("not a record")
    return CallRecord(
        call=wire.get("call"),
        masked=MaskReason(masked) if masked else None,
        sequence=wire.get("sequence"),
        base=wire.get("base"),
        kept=kept,
        reason=SegmentReason(reason) if reason else None,
        sampling=wire.get("sampling") or {},
        finish=wire.get("finish"),
        stop=wire.get("stop"),
        policy_version=wire.get("policy_version"),
        policy_version_end=wire.get("policy_version_end"),
    )
