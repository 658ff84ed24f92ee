"""Links each call's prompt to the token ids seen before it, or gives the reason why it starts a new segment.

Each session has a `Ledger` of its open conversations. For each conversation it holds the ids of the last prompt and
answer, so that the next record contains only new ids, and the digests of its messages, from which the reason for a
new segment is derived.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

from nemo_gym.responses.known_beginning import KnownBeginning
from nemo_gym.tokens.capture import Capture, PromptIds
from nemo_gym.tokens.histories import History, KnownDigests, common_prefix_length, is_one_conversation
from nemo_gym.tokens.ids import ID_BYTES, IdSequence, decode_ids, encode_ids, write_ids
from nemo_gym.tokens.light_parsing import IdText
from nemo_gym.tokens.reasons import DRIFT, SegmentReason
from nemo_gym.tokens.spelling import SampledTurns
from nemo_gym.tokens.thoughts import SampledThoughts

MOST_LEAVES = 16
"""Maximum number of open conversations per session, such as those of sub-agents, a simulated user or a judge."""

_MARGIN = 64
"""Ids before a divergence that are compared too: the old and the new text may begin with the same tokens."""


class Divergence(NamedTuple):
    """The ids around the place where a prompt stops extending the ids seen before, starting `_MARGIN` ids earlier."""

    seen: list[int]
    prompt: list[int]


@dataclass(frozen=True, slots=True)
class CallLink:
    """The relation of a call to the earlier calls of its session."""

    call: int
    """The number of the call in its session, from 0."""
    sequence: str
    """The fingerprint of its prompt and generated ids."""
    base: str | None = None
    """The fingerprint of the earlier call whose ids its prompt begins with."""
    kept: int = 0
    """The number of these ids."""
    reason: SegmentReason | None = None
    """The reason for a new segment; None if the call extends its base or is the session's first."""
    continues_first: bool = True
    """True if every call of the conversation so far extended the previous one."""
    divergence: Divergence | None = None
    """Set for a rewrite whose reason can be refined from the texts: see `exact_reason`."""
    stored_base: str | None = None
    """The fingerprint of the earlier call that shares the most ids with the prompt, for a record of all calls. A row
    has only the calls that an agent kept, so its `base` is None for a branch."""
    stored_kept: int = 0
    """The number of these ids."""

    @property
    def for_record(self) -> CallLink:
        """The link in a record that has all calls of the session."""
        return replace(self, base=self.stored_base, kept=self.stored_kept)


@dataclass(slots=True)
class _Leaf:
    """The last prompt and answer of a conversation."""

    ids: IdSequence
    prompt_length: int
    """The number of ids that belong to the prompt; the rest is the answer."""
    history: History | None
    continues_first: bool
    ends_turn: bool
    """False if the answer was truncated before its end-of-turn token."""
    text: bytes | None = None
    """The ids in JSON, if they came as text: those of the next prompt are compared with it before they are parsed."""

    def __len__(self) -> int:
        """Return the number of ids held; the text counts as so many more."""
        return len(self.ids) + len(self.text or b"") // ID_BYTES


class Ledger:
    """The open conversations of one session."""

    def __init__(self) -> None:
        self._start_empty()
        self._calls = 0
        self._has_forgotten = False

    def __len__(self) -> int:
        """Return the number of ids held; messages and texts count as so many more."""
        return sum(map(len, self._leaves)) + self.digests.size // ID_BYTES

    def forget(self) -> None:
        """Drop all ids, messages, sampled texts and reasoning. Later calls of this session are `unlinked`."""
        self._start_empty()
        self._has_forgotten = self._calls > 0

    def _start_empty(self) -> None:
        self.turns = SampledTurns()
        self.thoughts = SampledThoughts()
        self.beginning = KnownBeginning()
        self.digests = KnownDigests()
        self._leaves: list[_Leaf] = []

    def add_masked(self) -> int:
        """Count a call without ids, and return its number."""
        self._calls += 1
        return self._calls - 1

    def find_continued(self, history: History) -> IdSequence | None:
        """Return the ids of the conversation that a request with this `history` continues verbatim, or None.

        None after a truncated answer, because the end of its turn is unknown.
        """
        leaves = [
            leaf for leaf in self._leaves if leaf.history and history[: len(leaf.history)] == leaf.history
        ]
        longest = max(leaves, key=lambda leaf: len(leaf.history or ()), default=None)
        return longest.ids if longest is not None and longest.ends_turn else None

    def find_known(self, text: bytes) -> PromptIds | None:
        """Return the ids of a prompt that extends an open conversation, from their JSON; None if it extends none.

        Only the ids that it adds are parsed. Raises ValueError if they are no ids.
        """
        begun = (leaf for leaf in self._leaves if leaf.text is not None and IdText(leaf.text).begins(text))
        longest = max(begun, key=lambda leaf: len(leaf.ids), default=None)
        if longest is None or longest.text is None:
            return None
        added = IdText(b"0" + text[len(longest.text) :]).decode()[1:]
        written = longest.text + (b"," + write_ids(added) if added else b"")
        return PromptIds(longest.ids.encode() + encode_ids(added), written)

    def add(self, capture: Capture, history: History | None = None, *, ends_turn: bool = True) -> CallLink:
        """Link a call that has ids. `history` holds the digests of its request and answer, if known."""
        prompt, generated = capture.prompt.encoded, capture.encoded_generated
        text = capture.prompt.text
        if text is not None:
            text = b"%b,%b" % (text, write_ids(capture.generated_ids))
        begun = (leaf for leaf in self._leaves if leaf.ids.begins(prompt))
        extended = max(begun, key=lambda leaf: len(leaf.ids), default=None)
        call = self.add_masked()
        if extended is None:
            ids = IdSequence(prompt + generated)
            leaf = _Leaf(ids, len(prompt) // ID_BYTES, history, True, ends_turn, text)
            return self._begin(call, leaf, prompt)
        base, kept = extended.ids.fingerprint, len(extended.ids)
        extended.ids.extend(prompt[kept * ID_BYTES :] + generated)
        extended.prompt_length, extended.history = len(prompt) // ID_BYTES, history
        extended.ends_turn, extended.text = ends_turn, text
        self._leaves.sort(key=lambda leaf: leaf is extended)  # most recently used last
        sequence = extended.ids.fingerprint
        return CallLink(call, sequence, base, kept, None, extended.continues_first, None, base, kept)

    def _begin(self, call: int, leaf: _Leaf, prompt: bytes) -> CallLink:
        """Link a call that extends no open conversation."""
        asked = leaf.history[:-1] if leaf.history else None
        old = max(self._leaves, key=lambda old: _closeness(old, prompt, asked), default=None)
        base, kept, reason, divergence = None, 0, None, None
        stored = max(
            ((leaf.ids.count_shared(prompt), leaf) for leaf in self._leaves), key=itemgetter(0), default=None
        )
        stored_kept, stored_base = (stored[0], stored[1].ids.fingerprint) if stored else (0, None)
        if old is None:
            reason = SegmentReason.UNLINKED if self._has_forgotten else None
            leaf.continues_first = reason is None
        else:
            shared = old.ids.count_shared(prompt)
            reason = _reason(old, asked, shared)
            leaf.continues_first = reason is SegmentReason.BRANCH and _is_unrelated(old.history, asked)
            if reason in DRIFT:
                start = max(0, shared - _MARGIN)
                base, kept = old.ids.fingerprint, shared
                divergence = Divergence(old.ids.ids(start), decode_ids(prompt[start * ID_BYTES :]))
            if reason is not SegmentReason.BRANCH:
                self._leaves.remove(old)
        self._leaves.append(leaf)
        del self._leaves[:-MOST_LEAVES]
        return CallLink(
            call,
            leaf.ids.fingerprint,
            base,
            kept,
            reason,
            leaf.continues_first,
            divergence,
            stored_base if stored_kept else None,
            stored_kept,
        )


def _reason(old: _Leaf, asked: History | None, shared: int) -> SegmentReason:
    if old.history is not None and asked is not None:
        return find_reason(old.history, asked)
    # Without digests: if the last prompt is unchanged, the template rewrote the answer.
    return SegmentReason.TEMPLATE_REWRITE if shared >= old.prompt_length else SegmentReason.BRANCH


def find_reason(old: History, new: History) -> SegmentReason:
    """Return the reason why a prompt with history `new` does not extend a conversation with history `old`.

    `old` includes the conversation's last answer.
    """
    same = common_prefix_length(old, new)
    if same == len(old):
        dropped = any(was.has_reasoning and not now.has_reasoning for was, now in zip(old, new, strict=False))
        return SegmentReason.REASONING_DROPPED if dropped else SegmentReason.TEMPLATE_REWRITE
    if same == len(new) or not is_one_conversation(old, new):
        return SegmentReason.BRANCH
    is_shorter = sum(said.size for said in new) < sum(said.size for said in old)
    if any(said.says_same(earlier) for said in new[same:] for earlier in old[same:]):
        return SegmentReason.COMPACTED if is_shorter else SegmentReason.EDITED
    return SegmentReason.COMPACTED if is_shorter and len(new) < len(old) else SegmentReason.BRANCH


def exact_reason(seen: str, prompt: str, thoughts: list[str]) -> SegmentReason:
    """Return the reason for a divergence from its texts: `seen` and `prompt`, from the divergence to their ends.

    `thoughts` holds the reasoning texts of the prompt's request.
    """
    if prompt.startswith(seen):
        return SegmentReason.RETOKENIZED
    if any(thought in seen and thought not in prompt for thought in thoughts):
        return SegmentReason.REASONING_DROPPED
    return SegmentReason.TEMPLATE_REWRITE


def _closeness(leaf: _Leaf, prompt: bytes, asked: History | None) -> tuple[int, int]:
    said = common_prefix_length(leaf.history, asked) if leaf.history and asked else 0
    return said, leaf.ids.count_shared(prompt)


def _is_unrelated(old: History | None, new: History | None) -> bool:
    return old is not None and new is not None and not is_one_conversation(old, new)
