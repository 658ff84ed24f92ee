"""Rows on their way from an agent to a file: the new ids of each call are in lists, and their prompts are not repeated.

A model server answers so for the loop of an agent that asks for it (`TOKENS_HEADER`), if the row is to have the
contract's fields. They are written once, with the ids of prompts as text, where the row becomes JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import orjson

from nemo_gym.rows.calls import fill_contract_fields
from nemo_gym.rows.compose import attach_response, replace_output
from nemo_gym.rows.forms import AnyRow, ScoredRow
from nemo_gym.rows.parts import Item, read_output, read_response
from nemo_gym.tokens.ids import write_ids
from nemo_gym.tokens.records import (
    CARRIED_FIELDS,
    CONTRACT_FIELDS,
    FOR_CONTRACT,
    RECORD_FIELD,
    CallTokens,
    drop_tokens,
)

_NOT_WRITTEN = frozenset({FOR_CONTRACT, "ids"})


def has_lists(row: AnyRow) -> bool:
    """Return whether a call of the row has its ids in lists, and is to have them in the contract's fields."""
    return any(FOR_CONTRACT in record for item in read_output(row) if (record := _record_of(item)))


def fill_lists(row: ScoredRow) -> ScoredRow:
    """Return a row with the contract's fields in the place of lists; the same object if it has none."""
    return fill_contract_fields(row) if has_lists(row) else row


def fill_response(response: dict[str, Any]) -> dict[str, Any]:
    """Do the same for a response alone."""
    return dict(read_response(fill_lists(ScoredRow(attach_response({}, response)))))


def write_lists(row: AnyRow) -> AnyRow:
    """Return what `fill_lists` returns, for `orjson.dumps` alone: the ids of prompts are fragments of JSON."""
    if not has_lists(row):
        return row
    written = _write(read_output(row))
    if written is None:
        return fill_contract_fields(row)
    return replace_output(row, written)


def without_tokens(row: AnyRow) -> AnyRow:
    """Return a row without the tokens and the records of its calls; the same object if it has none."""
    output = read_output(row)
    if CARRIED_FIELDS.isdisjoint(chain.from_iterable(output)):
        return row
    kept = [drop_tokens(dict(item)) for item in output]
    return replace_output(row, kept)


def _write(output: Sequence[Item]) -> list[Item] | None:
    """Write the calls of one sequence; None if a call does not extend all the ids before it."""
    text, count, last = b"", 0, None
    written: list[Item] = []
    for item in output:
        record = _record_of(item)
        if not record or "sequence" not in record:
            written.append(item)
            continue
        ids = record.get("ids")
        if (
            FOR_CONTRACT not in record
            or record.get("base") != last
            or record.get("kept", 0) != count
            or not isinstance(ids, Mapping)
            or not all(isinstance(ids.get(name), list) for name in CallTokens._fields)
        ):
            return None
        prompt, generated, logprobs = CallTokens(**ids)
        text = _join(text, prompt)
        written.append(_place(item, record, (orjson.Fragment(b"[%b]" % text), generated, logprobs)))
        text, last = _join(text, generated), record["sequence"]
        count += len(prompt) + len(generated)
    return written


def _place(item: Item, record: Mapping[str, Any], values: tuple[Any, Any, Any]) -> Item:
    """Return an item with the values of the contract's fields, which come before its record."""
    placed: dict[str, Any] = {}
    for name, value in item.items():
        if name == RECORD_FIELD:
            placed |= zip(CONTRACT_FIELDS, values, strict=True)
            placed[name] = {key: kept for key, kept in record.items() if key not in _NOT_WRITTEN}
        else:
            placed[name] = value
    return placed


def _join(text: bytes, ids: Sequence[int]) -> bytes:
    added = write_ids(ids)
    return b"%b,%b" % (text, added) if text and added else text or added


def _record_of(item: Item) -> Mapping[str, Any]:
    record = item.get(RECORD_FIELD)
    return record if isinstance(record, Mapping) else {}
