"""The reasoning of answers, put back into requests of Chat Completions.

Most clients of Chat Completions have no place for reasoning, so they send an answer back without it. A template that
keeps reasoning would then render another prompt than the model has seen, and each turn would begin a new segment. A
server remembers the reasoning of a session's answers, and puts it back into the turns that the client has copied.

A turn is recognized by all that was said before it, instructions apart, or by the ids of its tool calls if these name
one answer only. Reasoning is put back for a client that never sends any: another one has left it out on purpose.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nemo_gym.responses.dialects import Dialect
from nemo_gym.responses.reasoning import put_reasoning, split_thinking
from nemo_gym.tokens.histories import digest_message, read_reasoning
from nemo_gym.tokens.spelling import join_texts

_MOST_CHARACTERS = 4_000_000
_INSTRUCTIONS = frozenset({"system", "developer"})


class _Thought(NamedTuple):
    """The reasoning of an answer: in its field, or as tagged text in the content."""

    text: str
    content: str | None

    @property
    def size(self) -> int:
        return len(self.text) + len(self.content or "")


class SampledThoughts:
    """The reasoning of a session's answers."""

    def __init__(self, *, most_characters: int = _MOST_CHARACTERS) -> None:
        self._most_characters = most_characters
        self._characters = 0
        self._by_place: OrderedDict[int, _Thought] = OrderedDict()
        self._by_calls: dict[int, int | None] = {}
        """Digest of a turn with tool calls → its place; None if there are several."""
        self._client_thinks = False

    def add(self, messages: Sequence[Mapping[str, Any]], answer: Mapping[str, Any], dialect: Dialect) -> None:
        """Remember the reasoning of an answer to chat `messages`."""
        thought = _read_thought(answer, dialect)
        if thought is None:
            return
        turn = {"role": "assistant", **answer}
        *_, (place, digest) = _walk([*messages, turn], dialect)
        self._forget(place)
        self._by_place[place] = thought
        self._characters += thought.size
        if answer.get("tool_calls"):
            self._by_calls[digest] = place if self._by_calls.get(digest, place) == place else None
        while self._characters > self._most_characters:
            self._forget(next(iter(self._by_place)))

    def restore_messages(
        self, messages: Sequence[Mapping[str, Any]], dialect: Dialect
    ) -> Sequence[Mapping[str, Any]]:
        """Return chat messages with the reasoning of the turns that lack it; the same object if nothing changes."""
        if self._client_thinks or not self._by_place:
            return messages
        if any(_is_turn(message) and _read_thought(message, dialect) for message in messages):
            self._client_thinks = True
            return messages
        restored = list(messages)
        for index, (place, digest) in enumerate(_walk(messages, dialect)):
            thought = self._find(place, digest) if _is_turn(messages[index]) else None
            if thought is not None:
                restored[index] = _put_thought(messages[index], thought, dialect)
        return restored if restored != messages else messages

    def _find(self, place: int, digest: int) -> _Thought | None:
        known = place if place in self._by_place else self._by_calls.get(digest)
        if known is None or known not in self._by_place:
            return None
        self._by_place.move_to_end(known)
        return self._by_place[known]

    def _forget(self, place: int) -> None:
        thought = self._by_place.pop(place, None)
        if thought is not None:
            self._characters -= thought.size


def _walk(messages: Sequence[Mapping[str, Any]], dialect: Dialect) -> Iterator[tuple[int, int]]:
    """Yield for each message the digest of the conversation up to it, and its own."""
    place = 0
    for message in messages:
        digest = _digest(message, dialect)
        if message.get("role") not in _INSTRUCTIONS:
            place = hash((place, digest))
        yield place, digest


def _digest(message: Mapping[str, Any], dialect: Dialect) -> int:
    """Return the digest of what a message says, for an answer without reasoning and with the ids of its calls."""
    if not _is_turn(message):
        return digest_message(message, dialect).content_hash
    text, calls = join_texts(message.get("content")), message.get("tool_calls") or ()
    said = split_thinking(text, dialect).answer.strip() if text else message.get("content")
    digest = digest_message({**message, "content": said or None}, dialect)
    return hash((digest.content_hash, *(str(call.get("id")) for call in calls)))


def _is_turn(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant"


def _read_thought(message: Mapping[str, Any], dialect: Dialect) -> _Thought | None:
    reasoning, text = read_reasoning(message), join_texts(message.get("content"))
    if reasoning:
        return _Thought(reasoning, None)
    if text and split_thinking(text, dialect).blocks:
        return _Thought("", text)
    return None


def _put_thought(message: Mapping[str, Any], thought: _Thought, dialect: Dialect) -> Mapping[str, Any]:
    if thought.content is not None:
        return {**message, "content": thought.content}
    changed = dict(message)
    put_reasoning(changed, [thought.text], dialect)
    return changed
