"""Whether a prompt extends what was seen before, token by token, and if it doesn't, why.

Each session has a `Ledger` of the conversations that are open in it. Of a conversation it holds the ids of the last
prompt and answer, so that the next call's record needs only what is new, and a few numbers about what was said, so
that a prompt which doesn't extend these ids begins a new segment with the right reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nemo_gym.tokens.capture import Capture
from nemo_gym.tokens.histories import History, is_one_conversation, repeated
from nemo_gym.tokens.ids import ID_BYTES, IdSequence, decode_ids
from nemo_gym.tokens.reasons import DRIFT, SegmentReason

MOST_TIPS = 16
"""Conversations that a session may have open at once: sub-agents, a simulated user, a judge."""


_MARGIN = 64
"""Ids before a divergence that are looked at too: what was replaced may begin as its replacement does."""


class Divergence(NamedTuple):
    """The ids from (a little before) where a prompt no longer extends what was seen."""

    seen: list[int]
    prompt: list[int]


@dataclass(frozen=True, slots=True)
class CallLink:
    """How a call follows from earlier ones."""

    call: int
    """The number of the call in its session, from 0."""
    sequence: str
    """The fingerprint of its prompt and generated ids."""
    base: str | None = None
    """The fingerprint of the earlier call whose ids its prompt begins with."""
    kept: int = 0
    """How many of them."""
    reason: SegmentReason | None = None
    """Why it begins a segment; None when it extends its base, or is the first of all."""
    continues_first: bool = True
    """Whether its conversation has held together from its first call to this one."""
    divergence: Divergence | None = None
    """For a rewrite whose reason the texts can tell more exactly: see `exact_reason`."""


@dataclass(slots=True)
class _Tip:
    """Where a conversation stands."""

    ids: IdSequence
    asked: int
    """How many of the ids are the last prompt's; the rest is its answer."""
    history: History | None
    continues_first: bool
    ends_turn: bool
    """Whether the answer ends with the token that ends a turn; one that was cut off doesn't."""


class Ledger:
    """The open conversations of one session."""

    def __init__(self) -> None:
        self._tips: list[_Tip] = []
        self._calls = 0
        self._has_forgotten = False

    def __len__(self) -> int:
        """How many ids it holds."""
        return sum(len(tip.ids) for tip in self._tips)

    def forget(self) -> None:
        """Hold no ids any more; a call that comes all the same is `unlinked`."""
        self._tips.clear()
        self._has_forgotten = self._calls > 0

    def add_masked(self) -> int:
        """Count a call without ids; its number."""
        self._calls += 1
        return self._calls - 1

    def continued(self, history: History) -> IdSequence | None:
        """The ids of the conversation that a request with this `history` goes on with, word for word.

        None after an answer that was cut off: nobody knows how its turn would have ended.
        """
        tips = [tip for tip in self._tips if tip.history and history[: len(tip.history)] == tip.history]
        longest = max(tips, key=lambda tip: len(tip.history or ()), default=None)
        return longest.ids if longest is not None and longest.ends_turn else None

    def add(self, capture: Capture, history: History | None = None, *, ends_turn: bool = True) -> CallLink:
        """Link a call that has ids. `history` is what its request and its answer say, where that is known."""
        prompt, generated = capture.encoded_prompt, capture.encoded_generated
        extended = max((tip for tip in self._tips if tip.ids.begins(prompt)), key=_length, default=None)
        call = self.add_masked()
        if extended is None:
            ids = IdSequence(prompt + generated)
            tip = _Tip(ids, len(prompt) // ID_BYTES, history, True, ends_turn)
            return self._begin(call, tip, prompt)
        base, kept = extended.ids.fingerprint, len(extended.ids)
        extended.ids.extend(prompt[kept * ID_BYTES :] + generated)
        extended.asked, extended.history = len(prompt) // ID_BYTES, history
        extended.ends_turn = ends_turn
        self._tips.sort(key=lambda tip: tip is extended)  # the one that moved last stands last
        return CallLink(call, extended.ids.fingerprint, base, kept, None, extended.continues_first)

    def _begin(self, call: int, tip: _Tip, prompt: bytes) -> CallLink:
        """Link a call that extends nothing."""
        asked = tip.history[:-1] if tip.history else None
        old = max(self._tips, key=lambda old: _closeness(old, prompt, asked), default=None)
        base, kept, reason, divergence = None, 0, None, None
        if old is None:
            reason = SegmentReason.UNLINKED if self._has_forgotten else None
            tip.continues_first = reason is None
        else:
            shared = old.ids.shared(prompt)
            reason = _reason(old, asked, shared)
            tip.continues_first = reason is SegmentReason.BRANCH and _is_unrelated(old.history, asked)
            if reason in DRIFT:
                start = max(0, shared - _MARGIN)
                base, kept = old.ids.fingerprint, shared
                divergence = Divergence(old.ids.ids(start), decode_ids(prompt[start * ID_BYTES :]))
            if reason is not SegmentReason.BRANCH:
                self._tips.remove(old)
        self._open(tip)
        return CallLink(call, tip.ids.fingerprint, base, kept, reason, tip.continues_first, divergence)

    def _open(self, tip: _Tip) -> None:
        self._tips.append(tip)
        del self._tips[:-MOST_TIPS]


def _reason(old: _Tip, asked: History | None, shared: int) -> SegmentReason:
    if old.history is not None and asked is not None:
        return reason_of(old.history, asked)
    # Nobody knows what was said. Where the last prompt is still there, the answer was written differently.
    return SegmentReason.TEMPLATE_REWRITE if shared >= old.asked else SegmentReason.BRANCH


def reason_of(old: History, new: History) -> SegmentReason:
    """Why a prompt that says `new` doesn't extend the ids of a conversation that said `old`, its answer included."""
    same = repeated(old, new)
    if same == len(old):
        dropped = any(was.thinks and not now.thinks for was, now in zip(old, new, strict=False))
        return SegmentReason.REASONING_DROPPED if dropped else SegmentReason.TEMPLATE_REWRITE
    if same == len(new) or not is_one_conversation(old, new):
        return SegmentReason.BRANCH
    is_shorter = sum(said.size for said in new) < sum(said.size for said in old)
    if any(said.repeats(earlier) for said in new[same:] for earlier in old[same:]):
        return SegmentReason.COMPACTED if is_shorter else SegmentReason.EDITED
    return SegmentReason.COMPACTED if is_shorter and len(new) < len(old) else SegmentReason.BRANCH


def exact_reason(seen: str, prompt: str, thoughts: list[str]) -> SegmentReason:
    """What became of the text where the ids diverge, `seen` up to its end and `prompt` up to its own.

    `thoughts` is the reasoning that the prompt's request holds.
    """
    if prompt.startswith(seen):
        return SegmentReason.RETOKENIZED
    if any(thought in seen and thought not in prompt for thought in thoughts):
        return SegmentReason.REASONING_DROPPED
    return SegmentReason.TEMPLATE_REWRITE


def _closeness(tip: _Tip, prompt: bytes, asked: History | None) -> tuple[int, int]:
    said = repeated(tip.history, asked) if tip.history and asked else 0
    return said, tip.ids.shared(prompt)


def _length(tip: _Tip) -> int:
    return len(tip.ids)


def _is_unrelated(old: History | None, new: History | None) -> bool:
    return old is not None and new is not None and not is_one_conversation(old, new)
