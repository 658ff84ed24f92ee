"""The reasons for masking a call and for starting a segment, as records and reports name them."""

from __future__ import annotations

from enum import StrEnum


class MaskReason(StrEnum):
    """The reason why no token of a call is trained on. The answer stays in the row; its tokens are context at most."""

    MISSING_TOKEN_IDS = "missing_token_ids"
    """The engine returned no ids for the prompt or the answer."""
    CONFLICTING_TOKEN_IDS = "conflicting_token_ids"
    """The engine returned different ids in two places."""
    INVALID_TOKEN_IDS = "invalid_token_ids"
    """The values are not token ids."""
    SHORT_TOKEN_IDS = "short_token_ids"
    """The number of ids differs from the engine's count of generated tokens."""
    MISSING_LOGPROBS = "missing_logprobs"
    SHORT_LOGPROBS = "short_logprobs"
    """The number of log-probabilities differs from the number of generated ids."""
    INVALID_LOGPROBS = "invalid_logprobs"
    """A null, a NaN, an infinity, a number above 0, or the sentinel -9999 for a missing value."""
    RAW_LOGPROBS = "raw_logprobs"
    """The log-probabilities are from before temperature, penalties and top-k, and these changed the distribution."""
    MISSING_BASE = "missing_base"
    """In a row: the record's base is not in the row."""
    DAMAGED_RECORD = "damaged_record"
    """In a row: the record cannot be parsed, or its ids do not match its fingerprint."""


class UntrainedReason(StrEnum):
    """The reason why a recorded call with usable tokens is not trained. Its tokens are context at most."""

    COPY = "copy"
    """An identical call was made, too, and the conversation did not go on from this one."""
    OFF_PATH = "off_path"
    """It did not lead to the end of the rollout."""
    FAILED = "failed"
    """The call failed."""
    OF_PARENT = "of_parent"
    """A fork shares it with its parent, in which it is trained."""


class SegmentReason(StrEnum):
    """The reason why a prompt does not extend earlier ids and starts a new segment."""

    TEMPLATE_REWRITE = "template_rewrite"
    """The messages are unchanged, but the chat template rendered them differently."""
    REASONING_DROPPED = "reasoning_dropped"
    """The template or the agent removed earlier reasoning."""
    RETOKENIZED = "retokenized"
    """The same text has other tokens."""
    COMPACTED = "compacted"
    """The conversation continues with a shorter history."""
    EDITED = "edited"
    """The conversation continues, and an earlier message has changed."""
    BRANCH = "branch"
    """Another conversation, or another continuation from an earlier point."""
    UNLINKED = "unlinked"
    """The earlier ids are no longer stored: the model server restarted, or dropped them at its memory limit."""


DRIFT = frozenset(
    {SegmentReason.TEMPLATE_REWRITE, SegmentReason.REASONING_DROPPED, SegmentReason.RETOKENIZED}
)
"""Reasons with unchanged messages: only the tokens differ."""
