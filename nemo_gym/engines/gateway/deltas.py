"""Requests as they are recorded: the messages and fields that a call adds to an earlier call.

An agent sends its whole conversation, its instructions and its tools with every call. Recorded whole, a rollout would
grow with the square of its turns.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from nemo_gym.responses.turns import ITEMS_OF_API

_CANDIDATES = 32
"""Calls that a request is compared with."""


@dataclass(frozen=True, slots=True)
class RequestDigests:
    """The digests of a request's messages and of its other fields."""

    api: str
    items: tuple[bytes, ...]
    fields: Mapping[str, bytes]


class RequestIndex:
    """The latest requests of a rollout."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str, RequestDigests] = OrderedDict()

    def delta_of(self, api: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `body` adds to the most similar of the latest requests of the same API.

        `base` is the call, `kept` the number of its messages, `items` the further messages, `set` the fields that
        differ, and `unset` the names of those that are absent.
        """
        items, fields = split(api, body)
        digests = [_digest(item) for item in items]
        base, kept = None, -1
        for call, request in reversed(self._requests.items()):
            shared = _shared(request.items, digests) if request.api == api else -1
            if shared > kept:
                base, kept = call, shared
        known = self._requests[base].fields if base is not None else {}
        changed = {name: value for name, value in fields.items() if known.get(name) != _digest(value)}
        kept = max(kept, 0)
        delta = {"base": base, "kept": kept, "items": items[kept:], "set": changed}
        unset = [name for name in known if name not in fields]
        return {**delta, "unset": unset} if unset else delta

    def add(self, call: str, api: str, delta: Mapping[str, Any]) -> None:
        """Add the request of a call. A request whose base is unknown has only its own part."""
        base = self._requests.get(delta["base"]) if delta["base"] is not None else None
        kept, fields = (base.items[: delta["kept"]], dict(base.fields)) if base is not None else ((), {})
        fields.update((name, _digest(value)) for name, value in delta["set"].items())
        for name in delta.get("unset", ()):
            fields.pop(name, None)
        self._requests[call] = RequestDigests(api, (*kept, *map(_digest, delta["items"])), fields)
        while len(self._requests) > _CANDIDATES:
            self._requests.popitem(last=False)


def split(api: str, body: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the messages and the other fields of a request. An `input` that is a text is a field."""
    name = ITEMS_OF_API[api]
    items = body.get(name)
    if not isinstance(items, list):
        return [], dict(body)
    return items, {key: value for key, value in body.items() if key != name}


def with_delta(
    base: tuple[list[Any], dict[str, Any]] | None, delta: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the messages and the other fields of a request from those of its base. The inverse of `delta_of`."""
    items, fields = base if base is not None else ([], {})
    unset = delta.get("unset", ())
    fields = {key: value for key, value in {**fields, **delta["set"]}.items() if key not in unset}
    return [*items[: delta["kept"]], *delta["items"]], fields


def _shared(known: Sequence[bytes], digests: Sequence[bytes]) -> int:
    pairs = zip(known, digests, strict=False)
    return next(
        (place for place, (old, new) in enumerate(pairs) if old != new), min(len(known), len(digests))
    )


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(orjson.dumps(value), digest_size=12).digest()
