"""Engine extras of single rows: the JSON strings `metadata.extra_body` and `metadata.chat_template_kwargs`.

The Responses API allows only strings in `metadata`, so datasets store engine extras there as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from nemo_gym.responses._request_fields import CHAT_LIMITS, CHAT_ONLY, STREAM_FIELDS
from nemo_gym.responses.dialects import Dialect
from nemo_gym.responses.problems import ConversionProblems

_TEMPLATE = "chat_template_kwargs"
EXTRAS_KEYS = ("extra_body", _TEMPLATE)
_NOT_AN_EXTRA = frozenset({"messages", "tools", "tool_choice", "metadata", *STREAM_FIELDS})
"""Fields that the conversion writes; an `extra_body` must not overwrite them."""


def put_metadata(
    metadata: object, body: dict[str, Any], dialect: Dialect, problems: ConversionProblems
) -> None:
    """Add `metadata` to a chat request, and merge its extras into `body` if the dialect does so.

    An extra that contradicts a field of the request is a problem. `chat_template_kwargs` are merged key by key.
    """
    metadata = problems.read_object(metadata or None, "metadata")
    if not metadata:
        return
    if not dialect.merge_metadata_extras or not any(key in metadata for key in EXTRAS_KEYS):
        body["metadata"] = metadata
        return
    extra_body, template_kwargs = (_parse_extra(metadata, key, problems) for key in EXTRAS_KEYS)
    template_kwargs = {
        **problems.read_object(body.get(_TEMPLATE), _TEMPLATE),
        **problems.read_object(extra_body.get(_TEMPLATE), f"metadata.extra_body.{_TEMPLATE}"),
        **template_kwargs,
    }
    _merge_extra_body(extra_body, body, dialect, problems)
    if template_kwargs:
        body[_TEMPLATE] = template_kwargs
    rest = {key: value for key, value in metadata.items() if key not in EXTRAS_KEYS}
    if rest:
        body["metadata"] = rest


def _merge_extra_body(
    extra_body: Mapping[str, Any], body: dict[str, Any], dialect: Dialect, problems: ConversionProblems
) -> None:
    for key, value in extra_body.items():
        if value is None or key == _TEMPLATE:
            continue
        path = f"metadata.extra_body.{key}"
        name = dialect.max_tokens_field if key in CHAT_LIMITS else key
        if key in _NOT_AN_EXTRA:
            problems.add(path, "belongs into the request itself")
        elif key == "n" and value != 1:
            problems.add(path, CHAT_ONLY["n"][0])
        elif body.setdefault(name, value) != value:
            problems.add(path, f"{value!r} contradicts {body[name]!r}, which the request says elsewhere")


def _parse_extra(metadata: Mapping[str, Any], key: str, problems: ConversionProblems) -> dict[str, Any]:
    text = metadata.get(key)
    if not text:
        return {}
    try:
        parsed = orjson.loads(text) if isinstance(text, str) else text
    except orjson.JSONDecodeError as error:
        problems.add(f"metadata.{key}", f"is no JSON: {error}")
        return {}
    if not isinstance(parsed, dict):
        problems.add(f"metadata.{key}", "must be the JSON text of an object")
        return {}
    return parsed
