"""Reads the calls in a rollout's row, in any form, and rewrites one form as another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from nemo_gym.rows.compose import replace_output
from nemo_gym.rows.forms import AnyRow, ScoredRow
from nemo_gym.rows.parts import Item, list_items, read_output
from nemo_gym.tokens.capture import Capture, PromptIds
from nemo_gym.tokens.ids import encode_ids
from nemo_gym.tokens.light_parsing import IdText, parse_lightly
from nemo_gym.tokens.linkage import Ledger
from nemo_gym.tokens.reasons import UntrainedReason
from nemo_gym.tokens.rebuilding import Rebuilding
from nemo_gym.tokens.records import (
    CARRIED_FIELDS,
    CONTRACT_FIELDS,
    FOR_CONTRACT,
    OUT_OF_SEQUENCE,
    RECORD_FIELD,
    CallRecord,
    CallTokens,
    TokenForm,
    contract_tokens,
    find_tokens_fault,
    read_record,
    unpack_ids,
)
from nemo_gym.tokens.segments import build_segments

__all__ = ["read_calls"]

_WRITTEN_ANEW = CARRIED_FIELDS - {"routed_experts"}


class _Call(NamedTuple):
    """A model call and the output item that ends it."""

    position: int
    """The item's index in the output."""
    record: CallRecord


def read_calls(row: AnyRow) -> list[CallRecord]:
    """Return the records of the model calls in a row, for `build_segments`; empty for a row without tokens.

    Rows of other gyms, which have only the contract's fields, are linked by their ids.
    """
    return [call.record for call in _read_calls(read_output(row))]


class WholeCall(NamedTuple):
    """The ids of a model call, and the output item that ends it."""

    position: int
    prompt: list[int]
    """The ids of its whole prompt."""
    record: CallRecord


def read_whole_calls(row: AnyRow) -> list[WholeCall]:
    """Return the model calls of a row that have ids, with their whole prompts."""
    rebuilding, found = Rebuilding(), []
    for place, record in _read_calls(read_output(row)):
        rebuilding.add(record)
        if record.tokens is not None and record.sequence is not None:
            found.append(WholeCall(place, rebuilding[record.sequence].prompt_ids, record))
    return found


def read_versions(row: AnyRow) -> tuple[int, int] | None:
    """Return the oldest and the newest version of the policy that sampled in a row; None if it names none.

    Versions that are not integers have no order, and are left out.
    """
    versions = [
        version
        for record in _records_in(row)
        for version in (
            record.get("policy_version"),
            record.get("policy_version_end"),
            *(span[1] for span in record.get("versions") or ()),
        )
        if type(version) is int
    ]
    return (min(versions), max(versions)) if versions else None


def token_ids_in(line: bytes) -> set[int]:
    """Return the different token ids of a row in JSON, prompts and answers, in any form. Damaged ones are left out."""
    ids: set[int] = set()
    later = b""
    for item in reversed(read_output(parse_lightly(line, list_items))):
        wire, prompt = item.get(RECORD_FIELD), item.get(CONTRACT_FIELDS[0])
        given = wire.get("ids") if isinstance(wire, Mapping) else None
        if isinstance(prompt, IdText) and prompt.begins(later):
            item = {**item, CONTRACT_FIELDS[0]: None}  # the prompt of a later call has these ids
        elif isinstance(prompt, IdText):
            later = prompt.text
        with suppress(ValueError, TypeError):
            if isinstance(given, str):
                ids.update(unpack_ids(given))
                continue
            tokens = CallTokens(**given) if isinstance(given, Mapping) else contract_tokens(item)
            for values in tokens[:2] if tokens is not None else ():
                encode_ids(values)
                ids.update(values)
    return ids


def _read_calls(output: Sequence[Item]) -> Iterator[_Call]:
    """The model calls recorded on `output`. Calls that cannot be rebuilt are masked."""
    rebuilding, ledger = Rebuilding(), Ledger()
    for index, item in enumerate(output):
        record = read_record(item, rebuilding)
        if record is None:
            record = _foreign_record(item, ledger)
        if record is None:
            continue
        fault = rebuilding.add(record)
        if fault is not None and record.masked is None:
            record = replace(record, masked=fault, tokens=None)
        yield _Call(index, record)


def _foreign_record(item: Item, ledger: Ledger) -> CallRecord | None:
    """Return the record of a call that has the contract's fields and no `_ng_tokens`."""
    tokens = contract_tokens(item)
    if tokens is None:
        return None
    masked = find_tokens_fault(tokens)
    if masked is not None:
        return CallRecord(call=ledger.add_masked(), masked=masked)
    prompt, generated = PromptIds(encode_ids(tokens.prompt)), encode_ids(tokens.generated)
    capture = Capture(prompt, tokens.generated, tokens.logprobs, None, generated)
    return CallRecord.from_capture(capture, ledger.add(capture))


def fill_contract_fields(row: AnyRow, *, learns_grammar: bool = True) -> ScoredRow:
    """Return `row` with its first segment in the contract's fields and all other calls packed.

    The contract's fields then hold one sequence: each prompt begins with all earlier prompts and answers. Unless
    `learns_grammar`, calls under a grammar are packed too, and are context of the calls after them.
    """
    return _rewritten(row, TokenForm.CONTRACT, learns_grammar=learns_grammar)


def settle_sequence(row: ScoredRow) -> ScoredRow:
    """Return `row` with only one sequence in the contract's fields; the same object if that is already so.

    A model server cannot see which of its calls an agent keeps. It writes the contract's fields for the first of
    several samples of a turn, and for each of several conversations.
    """
    records = _records_in(row)
    if not records:
        return row
    begins = sum(record.get("sequence") is not None and record.get("base") is None for record in records)
    is_contract = any(
        "ids" not in record or FOR_CONTRACT in record for record in records if record.get("sequence")
    )
    is_left_out = any(record.get(OUT_OF_SEQUENCE) for record in records)
    return fill_contract_fields(row) if is_left_out or (is_contract and begins > 1) else row


def convert_for_trainers(row: ScoredRow) -> ScoredRow:
    """Return a row of any form with its first segment in the contract's fields; the same object if that is so."""
    is_packed = any("ids" in record for record in _records_in(row))
    return fill_contract_fields(row) if is_packed else settle_sequence(row)


def mark_shared_calls(row: AnyRow, count: int) -> ScoredRow:
    """Return the row of a fork, whose first `count` calls are context: its parent has them, too."""
    if not count:
        return ScoredRow(dict(row))
    left, output = count, []
    for item in read_output(row):
        record = item.get(RECORD_FIELD)
        if isinstance(record, Mapping) and left:
            left -= 1
            item = {**item, RECORD_FIELD: {**record, "untrained": UntrainedReason.OF_PARENT.value}}
        output.append(item)
    marked = replace_output(row, output)
    is_contract = any(CONTRACT_FIELDS[0] in item for item in output)
    return fill_contract_fields(marked) if is_contract else marked


def pack_tokens(row: AnyRow) -> ScoredRow:
    """Return `row` with the ids of every call packed; its size is linear in its turns."""
    return _rewritten(row, TokenForm.PACKED)


def _records_in(row: AnyRow) -> list[Mapping[str, Any]]:
    return [
        record
        for item in read_output(row)
        if (record := item.get(RECORD_FIELD)) is not None and isinstance(record, Mapping)
    ]


def _rewritten(row: AnyRow, form: TokenForm, *, learns_grammar: bool = True) -> ScoredRow:
    output = read_output(row)
    calls = list(_read_calls(output))
    if not calls:
        return ScoredRow(dict(row))
    segments = build_segments([call.record for call in calls]) if form is TokenForm.CONTRACT else []
    in_contract = {
        number
        for number in (segments[0].calls if segments else ())
        if learns_grammar or not calls[number].record.is_under_grammar
    }
    rebuilding = Rebuilding()
    written = [dict(item) for item in output]
    for number, (place, record) in enumerate(calls):
        rebuilding.add(record)
        item = {name: value for name, value in output[place].items() if name not in _WRITTEN_ANEW}
        if number in in_contract:
            assert record.sequence is not None
            assert record.tokens is not None
            whole = (rebuilding[record.sequence].prompt_ids, record.tokens.generated, record.tokens.logprobs)
            item |= dict(zip(CONTRACT_FIELDS, whole, strict=True))
        item[RECORD_FIELD] = record.to_wire(form, in_sequence=number in in_contract)
        written[place] = item
    return replace_output(row, written)
