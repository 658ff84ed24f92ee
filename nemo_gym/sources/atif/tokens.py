"""The tokens of a model call: fields of an item in a row, metrics of a step in a trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.rows.calls import WholeCall
from nemo_gym.sources.atif.patches import make_patch
from nemo_gym.tokens.records import (
    CARRIED_FIELDS,
    CONTRACT_FIELDS,
    RECORD_FIELD,
    CallTokens,
    find_tokens_fault,
    pack,
)

Fields = dict[str, Any]


def write_metrics(item: Mapping[str, Any], call: WholeCall | None) -> tuple[Fields, Fields] | None:
    """Return the metrics of a call and what only `extra` holds of them; None for an item without tokens."""
    carried = {name: value for name, value in item.items() if name in CARRIED_FIELDS}
    if not carried:
        return None
    if call is None or call.record.tokens is None:
        return {}, {"fields": carried}
    tokens = call.record.tokens
    metrics = {
        "prompt_tokens": len(call.prompt),
        "completion_tokens": len(tokens.generated),
        **dict(zip(_METRICS, (call.prompt, tokens.generated, tokens.logprobs), strict=True)),
    }
    about = _describe(carried)
    if make_patch(read_tokens(metrics, about), carried) is not None:
        about = {"fields": carried}
    return metrics, about


_METRICS = ("prompt_token_ids", "completion_token_ids", "logprobs")


def _describe(carried: Fields) -> Fields:
    """Return the fields without the ids, and the form of these."""
    fields = {name: value for name, value in carried.items() if name not in CONTRACT_FIELDS}
    about: Fields = {"fields": fields, "contract": all(name in carried for name in CONTRACT_FIELDS)}
    record = fields.get(RECORD_FIELD)
    if isinstance(record, Mapping) and "ids" in record:
        about["packed"] = isinstance(record["ids"], str)
        fields[RECORD_FIELD] = {name: value for name, value in record.items() if name != "ids"}
    return about


def read_tokens(metrics: Fields, about: Fields) -> Fields:
    """Return the fields of an item from the metrics and the `extra` that `write_metrics` returned."""
    fields = dict(about["fields"])
    prompt, generated, logprobs = (metrics.get(name) or [] for name in _METRICS)
    if about.get("contract"):
        fields |= dict(zip(CONTRACT_FIELDS, (prompt, generated, logprobs), strict=True))
    if "packed" in about:
        record = fields[RECORD_FIELD]
        tokens = CallTokens(prompt[record.get("kept", 0) :], generated, logprobs)
        fields[RECORD_FIELD] = {**record, "ids": pack(tokens) if about["packed"] else tokens._asdict()}
    return fields


def read_foreign_tokens(metrics: Mapping[str, Any]) -> Fields | None:
    """Return the fields of an item from the metrics of another program; None unless the tokens are whole."""
    prompt, generated, logprobs = (metrics.get(name) or [] for name in _METRICS)
    tokens = CallTokens(prompt, generated, logprobs)
    if not prompt or not generated or find_tokens_fault(tokens) is not None:
        return None
    return dict(zip(CONTRACT_FIELDS, tokens, strict=True))
