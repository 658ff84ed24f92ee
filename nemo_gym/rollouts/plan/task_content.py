"""The content of a task, by which tasks of different files are recognized as the same, wherever they stand in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from nemo_gym.failures import InputError
from nemo_gym.json_objects import object_in
from nemo_gym.rows.compose import replace_params
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params, read_task_data


def task_digest(row: AnyRow, *, whole: bool = True) -> str:
    """Return the digest of a task's content: its input and, if `whole`, its own fields. Sampling does not count.

    Raises `InputError` for a row of too many levels.
    """
    return _digest({**(read_task_data(row) if whole else {}), "input": read_params(row).get("input")})


def request_digest(row: AnyRow, *, has_seed: bool) -> str:
    """Return the digest of a task's content with its sampling. `has_seed`: a seed of the run is in it, and left out.

    Raises `InputError` for a row of too many levels.
    """
    params = read_params(row)
    return _digest(replace_params(read_task_data(row), _drop_seed(params) if has_seed else params))


def _drop_seed(params: Any) -> Any:
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


def _digest(content: Mapping[str, Any]) -> str:
    try:
        text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:  # orjson reads more levels than it writes
        raise InputError(
            f"a task row cannot be compared: {error}",
            code="row_too_deep",
            remedy="Remove the rows with more than 250 levels of JSON.",
        ) from error
    return hashlib.blake2b(text, digest_size=16).hexdigest()
