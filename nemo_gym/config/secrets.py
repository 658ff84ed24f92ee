"""Detection and hiding of secrets.

The rule: a value is a secret

- by the last word of its key, with the word before it (`policy_api_key`, `password`, `db_pwd`, `auth`, `X-Api-Key`, but
  not `max_output_tokens`, `eos_token` or `auth_mode`). Words of form at the end do not count (`secret_list`,
  `api_key_value`), and `key` continues the key above it (`access: {key: ...}`);
- by its place in a URL (`https://user:password@host`, `?api_key=...`, `?sig=...`, the path of a webhook) or in a
  connection string (`AccountKey=...;`, `host=... password=...`);
- by its own form, as services mark their keys (`secret_forms`);
- in a text, by the secret name before it (`export KAGGLE_KEY=...`, `"api_key": ...`, `--token ...`, `Bearer ...`), if
  it looks like a generated key; after a login and `password`, as in `.netrc`; in a text that is JSON, by all of these
  rules;
- as a copy of such a value, also in a key, in Base64 or in a URL.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

from nemo_gym.config.secret_forms import HIDDEN, Scrubber, is_generated, keys_in
from nemo_gym.json_objects import parse_json
from nemo_gym.names import SERVER_KINDS

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_NOUN = re.compile(
    r"accesskey|apikey|auth|authorization|bearer|cookie|credentials?|creds|htpasswd|jwt|oauth|passcode|passphrase|passwd"
    r"|\w*passwords?|pwd|secretkey|secrets?|token"
)
_OF_FORM = re.compile(r"base|dict|encoded|json|list|map|pem|raw|string|text|value|values|headers")
"""Words after a secret that tell its form: `secret_list`."""
_FOLDERS = ("PWD", "OLDPWD")
"""Variables of a shell with its working directories."""
_SECRET_PAIRS = re.compile(
    r"(?:db|database|ftp|login|mysql|pg|postgres|proxy|redis|smtp|user) pass|(?:recovery|seed) phrase|sas (?:url|uri)"
    r"|(?:azure|git|github|gitlab) pat|webhook (?:url|uri|urls)|access signature"
)
"""The last two words of keys that only together are secrets."""
_BEFORE_SECRET_KEY = re.compile(
    r"access|account|admin|anthropic|api|auth|aws|azure|consumer|cookie|decryption|deploy|encryption|gcp|gemini|google"
    r"|hf|hmac|jwt|license|master|mistral|openai|private|secret|signing|ssh|storage|subscription|wandb"
)
"""Words before `key` that make it a secret: `api_key`, but not `sort_key`."""
_BEFORE_SECRET_TOKENS = re.compile(r"access|api|auth|bearer|refresh|session")
"""Words before `tokens` that make them secrets."""
_BEFORE_TEXT_TOKEN = re.compile(
    r"audio|bos|cls|end|eod|eos|eot|first|image|last|mask|pad|per|sep|special|start|stop|think|unk|video"
)
"""Words before `token` that make it a piece of text: `eos_token`, `cost_per_token`."""
_USERINFO = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_QUERY_SECRET = re.compile(r"(?:[?&]|^)(?P<name>[\w.-]+)=(?P<value>[^&#\s]+)")
_SIGNATURE = re.compile(
    r"sig|signature|x-amz-(?:credential|signature)|x-goog-(?:credential|signature)", re.IGNORECASE
)
"""Names of signatures in a query."""
_LONG_QUERY_SECRET = re.compile(r"(?:code|key)=[\w%+/=-]{20,}", re.IGNORECASE)
_WEBHOOK = re.compile(
    r"://(?:hooks\.[\w.-]+|[\w.-]+\.webhook\.office\.com|api\.telegram\.org|[\w.-]+(?=/(?:[\w.-]+/)*(?:web)?hooks?/))"
    r"/(?P<path>[^\s?#\"']{8,})"
)
"""A URL whose path lets anyone post."""
_NAME_IN_PAIR = r"[A-Za-z](?:[\w .-]*[\w.-])?"
_PAIR = rf"{_NAME_IN_PAIR}=(?! )[^;\n]*"
_CONNECTION = re.compile(rf"{_PAIR}(?:;\s*(?:{_PAIR})?)*|\w+=\S+(?:[ \t]+\w+=\S+)+")
"""A text that is a connection string: pairs between semicolons, or between spaces."""
_PAIR_OF_SEMICOLONS = re.compile(rf"(?:^|;)\s*(?P<name>{_NAME_IN_PAIR})=(?P<value>[^;\n]+)")
_PAIR_OF_SPACES = re.compile(r"(?:^|\s)(?P<name>\w+)=(?P<value>\S+)")
_SHORTEST_IN_PAIR = 4
_NAMED_IN_TEXT = re.compile(
    r"""(?P<name>(?<![\w.-])[A-Za-z][\w.-]{1,60})[\\"'`]{0,16}(?:[ \t]{0,4}[:=][ \t]{0,4}|[ \t]+(?:is|was)[ \t]+)"""
    r"""(?:[\\"'`]{0,16}(?:Bearer|Basic|Token|token)[ \t]+)?[\\"'`]{0,16}(?P<value>[\w+/=.~-]{12,}+)(?![(\[])"""
)
"""A name and its value in code, in a shell's lines, and in JSON within texts, however often it is escaped."""
_OPTION = re.compile(
    r"""(?<!\S)--(?P<name>[A-Za-z][\w.-]{1,60})(?:=|[ \t]+)["']?(?P<value>[\w+/=.~-]{12,}+)(?![(\[])"""
)
"""An option of a command line and its value."""
_LOGIN = re.compile(r"\blogin\s+\S+\s+password\s+(?P<value>\S{4,})")
_AFTER_BEARER = re.compile(r"\b[Bb]earer[ \t]+(?P<value>[\w+/=.~-]{16,})")
_BEFORE_PLAIN_KEY = re.compile(
    r"answer|artifact|block|cache|column|commit|config|content|dedup|dict|digest|field|file|foreign|group|hash|idempotency"
    r"|index|input|item|join|lookup|map|merge|metric|name|natural|object|output|partition|primary|problem|prompt|public|record"
    r"|request|result|reward|rollout|row|run|sample|score|sort|table|task|trace|unique"
)
"""Words before `key` that make it the name of something else."""
_SHORTEST_OF_VARIABLE = 8
_MOST_NESTED = 8
"""Levels of JSON in texts in JSON."""

_SERVER_KEYS = frozenset({*SERVER_KINDS, "entrypoint"})

SHORTEST_SCRUBBED = 6
"""Length in characters. Shorter secrets (`EMPTY`, `dummy`) are hidden as values, but not searched for in other text."""


def is_secret_name(name: str) -> bool:
    """Return whether a key of this name contains a secret."""
    words = [word.lower() for word in _WORDS.findall(name.rstrip("0123456789"))]
    is_formed = len(words) > 1 and _OF_FORM.fullmatch(words[-1]) is not None
    while len(words) > 1 and _OF_FORM.fullmatch(words[-1]):
        words.pop()
    if not words or name in _FOLDERS:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "webhook" or _SECRET_PAIRS.fullmatch(f"{before} {last}"):
        return True
    if is_formed and last in ("token", "tokens", "cookie"):
        return bool(_BEFORE_SECRET_TOKENS.fullmatch(before))
    if last in ("key", "keys"):
        return bool(_BEFORE_SECRET_KEY.fullmatch(before))
    if last == "tokens":
        return bool(_BEFORE_SECRET_TOKENS.fullmatch(before))
    is_text = last == "token" and _BEFORE_TEXT_TOKEN.fullmatch(before)
    return bool(_SECRET_NOUN.fullmatch(last)) and not is_text


def _may_name_secret(name: str) -> bool:
    """Return whether a generated value under this name is a secret: every key (`KAGGLE_KEY`) that is not of data."""
    words = [word.lower() for word in _WORDS.findall(name.rstrip("0123456789"))]
    is_key = len(words) > 1 and words[-1] in ("key", "keys", "pass", "pat")
    return is_key and not _BEFORE_PLAIN_KEY.fullmatch(words[-2])


def _is_of_variable(name: str, value: str) -> bool:
    """Return whether this may be a key in a variable of the environment, which need not look generated."""
    return name.isupper() and len(value) >= _SHORTEST_OF_VARIABLE and not any(map(str.isspace, value))


def is_hidden_kind(value: object) -> bool:
    """Return whether a value of a secret key must be hidden: it is not empty, missing or Boolean."""
    return not isinstance(value, bool) and value is not None and value not in ("", "???")


def hide_secrets(data: Any, known: Iterable[str] = ()) -> Any:
    """Return a copy of `data` (dicts, lists, scalars) with every secret replaced by `****`, in keys too.

    `known` are further secrets that are hidden wherever they occur.
    """
    found = {secret for secret in (*known, *_secrets_in(data)) if len(secret) >= SHORTEST_SCRUBBED}
    return _hide(data, False, Scrubber(found))


def hide_in_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Return `text` with `secrets`, and the credentials of its URLs, hidden."""
    return _hide_own(Scrubber(secrets).hide(text))


def _hide_own(text: str) -> str:
    own = set(_secrets_in_text(text))
    return Scrubber(own).hide(text) if own else text


def secret_values(config: Any) -> set[str]:
    """Return the secrets in `config` that are long enough to be searched for in logs and messages."""
    return {secret for secret in _secrets_in(config) if len(secret) >= SHORTEST_SCRUBBED}


def add_copies(secrets: Iterable[str]) -> frozenset[str]:
    """Return `secrets` with each of them in Base64, and as a URL writes it."""
    return frozenset(copy for secret in secrets for copy in (secret, *_write_copies(secret)))


def _write_copies(secret: str) -> Iterator[str]:
    yield quote(secret, safe="", errors="surrogatepass")
    yield base64.b64encode(secret.encode("utf-8", "surrogatepass")).decode().rstrip("=")


class Leaf(NamedTuple):
    """A scalar of a configuration; secret if a key above it is."""

    path: tuple[str | int, ...]
    value: Any
    is_secret: bool


def list_leaves(data: Any, path: tuple[str | int, ...] = (), under_secret: bool = False) -> Iterator[Leaf]:
    """Yield the scalars in `data`, apart from those in lists of numbers that are not secret."""
    if isinstance(data, Mapping):
        above = next((each for each in reversed(path) if isinstance(each, str)), "")
        for key, value in data.items():
            yield from list_leaves(value, (*path, str(key)), under_secret or _names_secret(key, data, above))
    elif isinstance(data, list | tuple):
        for index, item in enumerate(() if not under_secret and _is_numeric(data) else data):
            yield from list_leaves(item, (*path, index), under_secret)
    else:
        yield Leaf(path, data, under_secret and is_hidden_kind(data))


def _names_secret(key: object, owner: Mapping[Any, Any], above: str) -> bool:
    """Return whether `key` of `owner` is secret; `above` is the key of `owner`.

    A server block is not, even if the server is called `fortune_cookie`, nor is a token beside its log-probability.
    """
    name = f"{above}_{key}" if key in ("key", "keys", "Key", "KEY") else str(key)
    value = owner[key]
    if not is_secret_name(name):
        return (
            isinstance(value, str)
            and _may_name_secret(name)
            and (is_generated(value) or _is_of_variable(name, value))
        )
    if key == "token" and "logprob" in owner:
        return False
    return not (isinstance(value, Mapping) and not _SERVER_KEYS.isdisjoint(value))


def _is_numeric(data: Sequence[Any]) -> bool:
    """Return whether a list holds only numbers, as those of token ids do. They are not searched one by one."""
    return {int, float}.issuperset(map(type, data))


def _secrets_in(data: Any, nested: int = 0) -> Iterator[str]:
    for leaf in list_leaves(data):
        if leaf.is_secret:
            yield str(leaf.value)
        elif isinstance(leaf.value, str):
            yield from _secrets_in_text(leaf.value, nested)
    for key in _keys_in(data):
        yield from keys_in(key)


def _keys_in(data: Any) -> Iterator[str]:
    """Yield the texts that are keys in `data`."""
    if isinstance(data, Mapping):
        yield from (key for key in data if isinstance(key, str))
    if isinstance(data, list | tuple) and _is_numeric(data):
        return
    if isinstance(data, Mapping | list | tuple):
        for below in data.values() if isinstance(data, Mapping) else data:
            yield from _keys_in(below)


def _secrets_in_text(text: str, nested: int = 0) -> Iterator[str]:
    if "://" in text or "sig=" in text:
        yield from _find_url_secrets(text)
    if "=" in text and _CONNECTION.fullmatch(text.strip()):
        pairs = _PAIR_OF_SEMICOLONS if ";" in text or " " not in text.strip() else _PAIR_OF_SPACES
        for match in pairs.finditer(text):
            if is_secret_name(match["name"]) and len(match["value"]) >= _SHORTEST_IN_PAIR:
                yield match["value"]
    yield from keys_in(text)
    yield from (match["value"] for match in _LOGIN.finditer(text))
    for match in chain(_NAMED_IN_TEXT.finditer(text), _OPTION.finditer(text)):
        name, value = match["name"], match["value"]
        if is_generated(value) and (is_secret_name(name) or _may_name_secret(name)):
            yield value
    yield from (match["value"] for match in _AFTER_BEARER.finditer(text) if is_generated(match["value"]))
    if nested < _MOST_NESTED and text.lstrip()[:1] in ("{", "[", '"'):
        yield from _secrets_in_json(text, nested + 1)


def _secrets_in_json(text: str, nested: int) -> Iterator[str]:
    """Yield the secrets of a text that is JSON, as they stand in it. Those of other texts are none."""
    try:
        data = parse_json(text)
    except ValueError:
        return
    for secret in {each for each in _secrets_in(data, nested) if len(each) >= SHORTEST_SCRUBBED}:
        yield secret
        yield from {json.dumps(secret, ensure_ascii=escaped)[1:-1] for escaped in (False, True)} - {secret}


def _find_url_secrets(text: str) -> Iterator[str]:
    for match in _USERINFO.finditer(text):
        yield match[0]
        yield from (part for part in match[0].split(":", 1)[1:] if part)
    for match in _QUERY_SECRET.finditer(text):
        name = match["name"]
        if (
            is_secret_name(name)
            or _SIGNATURE.fullmatch(name)
            or _LONG_QUERY_SECRET.fullmatch(f"{name}={match['value']}")
        ):
            yield match["value"]
    yield from (match["path"] for match in _WEBHOOK.finditer(text))


def _hide(data: Any, under_secret: bool, scrubber: Scrubber, above: str = "") -> Any:
    if isinstance(data, Mapping):
        hidden: dict[Any, Any] = {}
        for key, value in data.items():
            is_secret = under_secret or _names_secret(key, data, above)
            shown = scrubber.hide(key) if isinstance(key, str) else key
            if shown != key and shown in hidden:
                shown = f"{shown} {len(hidden) + 1}"
            hidden[shown] = _hide(value, is_secret, scrubber, str(key))
        return hidden
    if isinstance(data, list | tuple):
        if not under_secret and _is_numeric(data):
            return list(data)
        return [_hide(item, under_secret, scrubber, above) for item in data]
    if under_secret and is_hidden_kind(data):
        return HIDDEN
    return _hide_own(scrubber.hide(data)) if isinstance(data, str) else data
