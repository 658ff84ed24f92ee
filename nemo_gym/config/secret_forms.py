"""The forms of keys that services generate, and the hiding of known texts in other texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

HIDDEN = "****"

_BEFORE_ANY = (
    r"sk-|github_pat_|gl(?:pat|dt|rt|ptt|soat|ft|agent|cbt)-|nvapi-|tvly-|lsv2_(?:pt|sk)_|pcsk_|wandb_v1_|hv[sb]\.|pypi-"
    r"|dckr_(?:pat|oat)_|SG\.|glsa_|sntry[su]_|tskey-|ATATT3|ya29\.|GOCSPX-|xapp-|xkeysib-|PMAK-|AGE-SECRET-KEY-"
)
"""The beginnings of services' keys that have dots, dashes and underscores in them."""
_BEFORE_ONE_WORD = (
    r"gh[opsur]_|hf_|api_org_|gsk_|xai-|pplx-|r8_|csk-|tgp_v1_|fw_|jina_|e2b_|rpa_|esecret_|npm_|[sr]k_(?:live|test)_"
    r"|whsec_|sk_|do[op]_v1_|shp(?:at|ca|pa|ss)_|lin_api_|ntn_|figd_|glc_|ph[cx]_|sbp_|pul-|apify_api_|ABSK|dapi"
)
"""The beginnings of those that are letters and digits."""
_MARKED = re.compile(
    rf"(?<![A-Za-z0-9])(?:(?:{_BEFORE_ANY})[\w.-]{{20,}}|(?:{_BEFORE_ONE_WORD})[A-Za-z0-9]{{20,}}|xox[abeprs]-[\w-]{{10,}}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{35}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    re.DOTALL,
)
_SHORT_PREFIX = re.compile(
    r"(?<![\w/+=.-])[A-Za-z][A-Za-z0-9]{1,11}[_-](?:(?:api|key|live|test|prod|pat|proj|v\d)[_-]){0,2}(?P<key>[A-Za-z0-9]{32,})(?![\w/+=-])"
)
"""A key of another service: a short prefix, and a long part of upper and lower case and digits."""
_CLASSES = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"))
_GENERATED = re.compile(r"[\w+/=.~-]{16,}")
_FEW = 32
"""So many texts are searched one after another."""


def keys_in(text: str) -> Iterator[str]:
    """Yield the keys in a text that show by their form that they are keys."""
    for match in _MARKED.finditer(text):
        if _is_random(match[0]):
            yield match[0]
    for match in _SHORT_PREFIX.finditer(text):
        if all(one.search(match["key"]) for one in _CLASSES):
            yield match[0]


def _is_random(key: str) -> bool:
    """Return whether a marked key is more than words: `sk-learn-compatible-estimators` is none."""
    return "PRIVATE KEY" in key or any(character.isdigit() or character.isupper() for character in key[4:])


def is_generated(value: str) -> bool:
    """Return whether a value may be a generated key: 16 characters or more of two classes, digits among them."""
    if not _GENERATED.fullmatch(value):
        return False
    return (
        bool(_CLASSES[2].search(value))
        and any(one.search(value) for one in _CLASSES[:2])
        and _is_mixed(value)
    )


def _is_mixed(value: str) -> bool:
    """Return whether a value is no name of words and numbers, such as `gpt-4o-mini-2024-07-18` or `self.tokens_v2`."""
    longest = max(re.split(r"[_.~/+=-]", value), key=len)
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(longest))
    return changes >= 2 and len(longest) >= 8


class Scrubber:
    """Hides texts in other texts, in time that does not grow with their number."""

    def __init__(self, hidden: Iterable[str]) -> None:
        self._hidden = sorted({text for text in hidden if text}, key=lambda text: (-len(text), text))
        self._shortest = len(self._hidden[-1]) if self._hidden else 0
        self._by_start: dict[str, dict[int, set[str]]] = {}
        """The beginning of hidden texts, of the length of the shortest → length, the longest first → the texts."""
        if len(self._hidden) > _FEW:
            for text in self._hidden:
                self._by_start.setdefault(text[: self._shortest], {}).setdefault(len(text), set()).add(text)

    def hide(self, text: str) -> str:
        """Return `text` with `****` for each hidden text."""
        if self._by_start:
            return self._hide_many(text)
        for hidden in self._hidden:
            text = text.replace(hidden, HIDDEN)
        return text

    def _hide_many(self, text: str) -> str:
        parts, kept, at = [], 0, 0
        while at + self._shortest <= len(text):
            of_length = self._by_start.get(text[at : at + self._shortest], {})
            found = next((size for size, texts in of_length.items() if text[at : at + size] in texts), 0)
            if found:
                parts += [text[kept:at], HIDDEN]
                kept = at + found
            at += found or 1
        return "".join([*parts, text[kept:]]) if parts else text
