"""Conversations that a model server keeps for agents: a long history travels to it once, and not with every turn.

An agent whose conversation has grown long asks for it to be kept (`x-ng-history: keep`). The answer's header names what
is kept, up to and with this answer, and a request with that name in `previous_response_id` holds only what has been
said since. Nobody relies on it: room is bounded and what was untouched longest goes first, a restarted server has
forgotten all, and one that doesn't know the header keeps nothing. `previous_response_not_found` has the agent send the
whole conversation, as it has clients of OpenAI's API.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from nemo_gym import sources
from nemo_gym.failures import InputError
from nemo_gym.servers.responses_upstream import without_our_fields

NOT_FOUND = "previous_response_not_found"


@dataclass(eq=False, slots=True)
class Conversation:
    """What has been said in one conversation, up to the last answer."""

    items: list[bytes] = field(default_factory=list)
    """Each as JSON: parsed they would take several times the room."""
    names: list[str] = field(default_factory=list)
    """One for each answer in it."""
    size: int = 0

    def add(self, items: list[bytes]) -> None:
        self.items += items
        self.size += sum(map(len, items))


class Turn(NamedTuple):
    """A request that goes on with a conversation, or begins one."""

    params: dict[str, Any]
    """The request with the whole conversation in it."""
    conversation: Conversation
    length: int
    """How many items of the conversation come before it."""
    said: list[bytes]
    """The items that it adds."""


class Conversations:
    """The conversations of one server process."""

    def __init__(self, room_mb: float) -> None:
        self._room = int(room_mb * 1e6)
        self._size = 0
        self._kept: OrderedDict[Conversation, None] = OrderedDict()
        """The one that was untouched longest comes first."""
        self._by_name: dict[str, tuple[Conversation, int]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes of text that are held."""
        return self._size

    def turn(self, params: Mapping[str, Any]) -> Turn:
        """What a request asks for. Raises `InputError` where it goes on with a conversation that is not kept."""
        said = [orjson.dumps(item) for item in _items(params.get("input"))]
        before = params.get("previous_response_id")
        if before is None:
            return Turn(dict(params), Conversation(), 0, said)
        kept = self._by_name.get(before) if isinstance(before, str) else None
        if kept is None:
            raise InputError(
                f"no conversation is kept under the name {before!r}",
                code=NOT_FOUND,
                param="previous_response_id",
                remedy="Send the whole conversation as `input`.",
                status=400,
            )
        conversation, length = kept
        whole = {name: value for name, value in params.items() if name != "previous_response_id"}
        whole["input"] = orjson.loads(b"[%b]" % b",".join([*conversation.items[:length], *said]))
        return Turn(whole, conversation, length, said)

    def keep(self, turn: Turn, answer: Mapping[str, Any]) -> str | None:
        """Keep the conversation up to `answer`, the answer to `turn`: its name, or None where it can't be kept."""
        output = answer.get("output")
        if not isinstance(output, list) or not turn.said:
            return None
        conversation = turn.conversation
        if len(conversation.items) != turn.length:  # it has gone on from there before: this is another way on
            conversation = Conversation()
            conversation.add(turn.conversation.items[: turn.length])
        self._size -= conversation.size if conversation in self._kept else 0
        conversation.add([*turn.said, *map(orjson.dumps, without_our_fields(output))])
        name = sources.hex_id()
        conversation.names.append(name)
        self._by_name[name] = conversation, len(conversation.items)
        self._size += conversation.size
        self._kept[conversation] = None
        self._kept.move_to_end(conversation)
        if conversation.size > self._room:  # it alone: the others would make room for nothing
            self._forget(conversation)
        while self._size > self._room:
            self._forget(next(iter(self._kept)))
        return name if name in self._by_name else None

    def _forget(self, conversation: Conversation) -> None:
        del self._kept[conversation]
        self._size -= conversation.size
        for name in conversation.names:
            self._by_name.pop(name, None)


def _items(given: Any) -> list[Any]:
    """The `input` of a request as items: text alone is what the user says."""
    if isinstance(given, str):
        return [{"role": "user", "content": given, "type": "message"}]
    return given if isinstance(given, list) else []
