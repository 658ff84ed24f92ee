"""The content of a task, by which tasks of different files are recognized as the same, wherever they stand in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from nemo_gym.json_objects import object_in
from nemo_gym.names import AGENT_REF_KEY, PARAMS_KEY, RESERVED_PREFIX, SKILLS_REF_KEY, TASK_SOURCE_KEY

_OF_THE_RUN = frozenset({AGENT_REF_KEY, PARAMS_KEY, SKILLS_REF_KEY, TASK_SOURCE_KEY})
"""Fields of a task row that depend on the run."""


def task_digest(row: Mapping[str, Any]) -> str:
    """Return the digest of a task's content: its input and its own fields, without agent, model and sampling."""
    return _digest(_own_fields(row) | {"input": (row.get(PARAMS_KEY) or {}).get("input")})


def request_digest(row: Mapping[str, Any], *, has_seed: bool) -> str:
    """Return the digest of a task's content with its sampling. `has_seed`: a seed of the run is in it, and left out."""
    params = row.get(PARAMS_KEY)
    return _digest(_own_fields(row) | {PARAMS_KEY: _without_seed(params) if has_seed else params})


def _own_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in row.items()
        if not key.startswith(RESERVED_PREFIX) and key not in _OF_THE_RUN
    }


def _without_seed(params: Any) -> Any:
    """Return the parameters of a request as they are before the run puts a seed into them."""
    metadata = params.get("metadata") if isinstance(params, Mapping) else None
    if not isinstance(metadata, Mapping):
        return params
    extra = {
        key: value
        for key, value in (object_in(metadata.get("extra_body") or "{}") or {}).items()
        if key != "seed"
    }
    metadata = {key: value for key, value in metadata.items() if key != "extra_body"} | (
        {"extra": extra} if extra else {}
    )
    return {key: value for key, value in params.items() if key != "metadata"} | (
        {"metadata": metadata} if metadata else {}
    )


def _digest(value: Mapping[str, Any]) -> str:
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()
