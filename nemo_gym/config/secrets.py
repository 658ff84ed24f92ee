"""Detection and hiding of secrets.

A value is a secret by the name of its key (`policy_api_key`, `password`, `X-Api-Key`, but not `max_output_tokens` or
`eos_token`), as a credential in a URL (`https://user:password@host`, `?api_key=...`), or as a copy of such a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nemo_gym.names import SERVER_KINDS

HIDDEN = "****"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_NOUN = re.compile(
    r"apikey|authorization|bearer|cookie|credentials?|jwt|passphrase|passwd|passwords?|secrets?|token"
)
_BEFORE_SECRET_KEY = re.compile(
    r"access|account|api|auth|cookie|encryption|private|secret|signing|ssh|subscription"
)
"""Words before `key` that make it a secret: `api_key`, but not `sort_key`."""
_BEFORE_SECRET_TOKENS = re.compile(r"access|api|auth|bearer|refresh|session")
"""Words before `tokens` that make them secrets."""
_BEFORE_TEXT_TOKEN = re.compile(
    r"audio|bos|cls|end|eod|eos|eot|first|image|last|mask|pad|per|sep|special|start|stop|think|unk|video"
)
"""Words before `token` that make it a piece of text: `eos_token`, `cost_per_token`."""
_USERINFO = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_QUERY_SECRET = re.compile(r"[?&](?P<name>[\w.-]+)=(?P<value>[^&#\s]+)")

_SERVER_KEYS = frozenset({*SERVER_KINDS, "entrypoint"})

SHORTEST_SCRUBBED = 6
"""Length in characters. Shorter secrets (`EMPTY`, `dummy`) are hidden as values, but not searched for in other text."""


def is_secret_name(name: str) -> bool:
    """Return whether a key of this name contains a secret."""
    words = [word.lower() for word in _WORDS.findall(name.rstrip("0123456789"))]
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in ("key", "keys"):
        return bool(_BEFORE_SECRET_KEY.fullmatch(before))
    if last == "tokens":
        return bool(_BEFORE_SECRET_TOKENS.fullmatch(before))
    is_text = last == "token" and _BEFORE_TEXT_TOKEN.fullmatch(before)
    return bool(_SECRET_NOUN.fullmatch(last)) and not is_text


def is_hidden_kind(value: object) -> bool:
    """Return whether a value of a secret key must be hidden: it is not empty, missing or Boolean."""
    return not isinstance(value, bool) and value is not None and value not in ("", "???")


def hide_secrets(data: Any, known: Iterable[str] = ()) -> Any:
    """Return a copy of `data` (dicts, lists, scalars) with every secret replaced by `****`.

    `known` are further secrets that are hidden wherever they occur.
    """
    found = {secret for secret in (*known, *_secrets_in(data)) if len(secret) >= SHORTEST_SCRUBBED}
    return _hidden(data, False, sorted(found, key=len, reverse=True))


def hide_in_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Return `text` with `secrets`, and the credentials of its URLs, hidden."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    for secret in _secrets_of_urls(text):
        text = text.replace(secret, HIDDEN)
    return text


def secret_values(config: Any) -> set[str]:
    """Return the secrets in `config` that are long enough to be searched for in logs and messages."""
    return {secret for secret in _secrets_in(config) if len(secret) >= SHORTEST_SCRUBBED}


class Leaf(NamedTuple):
    """A scalar of a configuration; secret if a key above it is."""

    path: tuple[str | int, ...]
    value: Any
    is_secret: bool


def leaves_of(data: Any, path: tuple[str | int, ...] = (), under_secret: bool = False) -> Iterator[Leaf]:
    """Yield the scalars in `data`, apart from those in lists of numbers that are not secret."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from leaves_of(value, (*path, str(key)), under_secret or _names_secret(key, data))
    elif isinstance(data, list | tuple):
        for index, item in enumerate(() if not under_secret and _is_numeric(data) else data):
            yield from leaves_of(item, (*path, index), under_secret)
    else:
        yield Leaf(path, data, under_secret and is_hidden_kind(data))


def _names_secret(key: object, owner: Mapping[Any, Any]) -> bool:
    """Return whether `key` of `owner` is secret.

    A server block is not, even if the server is called `fortune_cookie`, nor is a token beside its log-probability.
    """
    if not is_secret_name(str(key)) or (key == "token" and "logprob" in owner):
        return False
    value = owner[key]
    return not (isinstance(value, Mapping) and not _SERVER_KEYS.isdisjoint(value))


def _is_numeric(data: Sequence[Any]) -> bool:
    """Return whether a list holds only numbers, as those of token ids do. They are not searched one by one."""
    return {int, float}.issuperset(map(type, data))


def _secrets_in(data: Any) -> Iterator[str]:
    for leaf in leaves_of(data):
        if leaf.is_secret:
            yield str(leaf.value)
        elif isinstance(leaf.value, str):
            yield from _secrets_of_urls(leaf.value)


def _secrets_of_urls(text: str) -> Iterator[str]:
    if "://" not in text:
        return
    for match in _USERINFO.finditer(text):
        yield match[0]
        yield from (part for part in match[0].split(":", 1)[1:] if part)
    yield from (match["value"] for match in _QUERY_SECRET.finditer(text) if is_secret_name(match["name"]))


def _hidden(data: Any, under_secret: bool, secrets: list[str]) -> Any:
    if isinstance(data, Mapping):
        return {
            key: _hidden(value, under_secret or _names_secret(key, data), secrets)
            for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        if not under_secret and _is_numeric(data):
            return list(data)
        return [_hidden(item, under_secret, secrets) for item in data]
    if under_secret and is_hidden_kind(data):
        return HIDDEN
    return hide_in_text(data, secrets) if isinstance(data, str) else data
