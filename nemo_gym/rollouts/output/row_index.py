"""`<stem>_index`: the numbers and labels of a file of rows in columns, so that a viewer needs no row to list them.

The file is a sequence of blocks. Each describes consecutive rows:

    "NGI1"  bytes of the head (u32)  bytes of the body (u32)  CRC-32 of head and body (u32)  head  body

All integers are little-endian. The head is JSON: `rows`, `start` and `end` (offsets in the decompressed file of rows),
`tail` (CRC-32 of its last bytes before `end`) and `columns`. A column has a `name` and one of the forms

    {"same": value}                every row has this number or label
    {"kind": "i1|i2|i4|f8", "at"}  numbers at this offset of the body; NaN if a row has none
    {"kind": ..., "values", "at"}  numbers or labels: positions in `values`; null if a row has none

`at` is a multiple of 8. A name without a column is a number or label that no row of the block has.

Blocks are only appended. A torn block ends the index, and an index whose tails differ from the rows is not used: a
reader reads the rows instead.
"""

from __future__ import annotations

import math
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, TypeAlias

import orjson

from nemo_gym.json_objects import finite_number, parse_object
from nemo_gym.metrics.records import read_measurements
from nemo_gym.rollouts.plan.dataset import BYTE_ORDER_MARK
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import read_attempt, read_repeat, read_task_index
from nemo_gym.rows.keys import REWARD_KEY
from nemo_gym.rows.parts import read_agent, read_response
from nemo_gym.rows.timing import measure_times
from nemo_gym.rows.tool_errors import INVALID_TOOL_CALLS, TOOL_ERRORS
from nemo_gym.rows.verdict import (
    is_masked,
    is_scored,
    read_end_reason,
    read_failed_at,
    read_failure_class,
    read_outcome,
)
from nemo_gym.rows.version import is_row_readable
from nemo_gym.tokens.records import RECORD_FIELD

BLOCK_ROWS = 4096
LENGTH_COLUMN = "length"
"""The bytes of a row with its line break. The first row of a block is at `start`."""
_MAGIC = b"NGI1"
_FRAME = struct.Struct("<4sIII")
_TAIL_BYTES = 64
_INTEGERS = (("i1", "b", 1 << 7), ("i2", "h", 1 << 15), ("i4", "i", 1 << 31))
_EXACT = 1 << 53
"""The bound of the integers that every float and every browser holds exactly."""
_FEW = 128
"""Columns with fewer different values, some of them missing or fractions, are coded."""
_CODES = {"f8": "d"} | {kind: code for kind, code, _ in _INTEGERS}
"""The type of Python's array for each kind."""

Label: TypeAlias = str | None


class RowEntry(NamedTuple):
    """The columns of one row."""

    numbers: Mapping[str, float]
    labels: Mapping[str, Label]


_UNREADABLE = RowEntry({}, {"outcome": "unreadable"})


def build_entry(row: AnyRow) -> RowEntry:
    """Return the columns of a row. A row without a score has no `reward`, and one of a newer version no columns."""
    if not is_row_readable(row):
        return _UNREADABLE
    numbers = read_measurements(row)
    if not is_scored(row):
        numbers.pop(REWARD_KEY, None)
    response, output = read_response(row), read_response(row).get("output")
    task = read_task_index(row)
    numbers |= {
        "task": -1 if task is None else task,
        "rollout": read_repeat(row),
        "attempt": read_attempt(row),
        "masked": is_masked(row),
    }
    numbers |= measure_times(row)  # those of failed attempts too
    created = finite_number(response.get("created_at"))
    moment = read_failed_at(row) if created is None else created
    if moment is not None:
        numbers["created_at"] = moment
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    if isinstance(output, list):
        numbers["tool_calls"] = sum(item.get("type") == "function_call" for item in items)
        if numbers["tool_calls"]:  # so that a run with calls has the columns to filter by
            numbers = {TOOL_ERRORS: 0, INVALID_TOOL_CALLS: 0, **numbers}
    labels = {
        "outcome": read_outcome(row).value,
        "agent": read_agent(row),
        "end_reason": read_end_reason(row),
        "failure": read_failure_class(row),
        "policy_version": _policy_version(items),
    }
    return RowEntry(numbers, labels)


def _policy_version(items: Sequence[Mapping[str, Any]]) -> Label:
    """Return the policy's version at the last call with a token record."""
    records = (item.get(RECORD_FIELD) for item in reversed(items))
    versions = (record.get("policy_version") for record in records if isinstance(record, Mapping))
    return next((str(version) for version in versions if version is not None), None)


class Block(NamedTuple):
    """A decoded block."""

    start: int
    end: int
    tail: int
    columns: Mapping[str, Sequence[Any]]
    """One value a row by name. Numbers are floats or integers; labels are strings or None."""

    @property
    def rows(self) -> int:
        return len(self.columns[LENGTH_COLUMN])


class BlockBuilder:
    """Gathers consecutive rows of a file."""

    def __init__(self, start: int) -> None:
        self._start = self.end = start
        self._tail = b""
        self._lengths: list[int] = []
        self._entries: list[RowEntry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: RowEntry, line: bytes) -> None:
        """Add the next row. `line` ends with its line break."""
        self._entries.append(entry)
        self._lengths.append(len(line))
        self._tail = (self._tail + line[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        self.end += len(line)

    def encode(self) -> bytes:
        """Return the block of at least one row."""
        body = bytearray()
        columns = [_number_column(LENGTH_COLUMN, self._lengths, body)]
        numbers, labels = zip(*self._entries, strict=True)
        for name in sorted(set().union(*numbers)):
            columns.append(_number_column(name, [each.get(name, math.nan) for each in numbers], body))
        for name in sorted(set().union(*labels)):
            columns.append(_code_column(name, [each.get(name) for each in labels], body))
        head = {
            "rows": len(self),
            "start": self._start,
            "end": self.end,
            "tail": zlib.crc32(self._tail),
            "columns": columns,
        }
        text = orjson.dumps(head)
        text += b" " * (-len(text) % 8)
        sealed = zlib.crc32(body, zlib.crc32(text))
        return _FRAME.pack(_MAGIC, len(text), len(body), sealed) + text + bytes(body)


def build_blocks(lines: Iterable[bytes], start: int = 0, *, rows: int = BLOCK_ROWS) -> Iterator[bytes]:
    """Yield the blocks of lines, of which the first is at `start`.

    The last line is left out if it has no line break. A line that is not a row counts as a row without numbers.
    """
    builder = BlockBuilder(start)
    for line in lines:
        if not line.endswith(b"\n"):
            break
        builder.add(_build_line_entry(line), line)
        if len(builder) == rows:
            yield builder.encode()
            builder = BlockBuilder(builder.end)
    if len(builder):
        yield builder.encode()


def _build_line_entry(line: bytes) -> RowEntry:
    row = parse_object(line.removeprefix(BYTE_ORDER_MARK))
    return build_entry(row) if row is not None else _UNREADABLE


def split_blocks(content: bytes) -> list[bytes]:
    """Return the whole blocks at the beginning of an index. A torn or damaged block ends them."""
    blocks, at = [], 0
    while at + _FRAME.size <= len(content):
        magic, head, body, sealed = _FRAME.unpack_from(content, at)
        end = at + _FRAME.size + head + body
        if magic != _MAGIC or end > len(content) or zlib.crc32(content[at + _FRAME.size : end]) != sealed:
            break
        blocks.append(content[at:end])
        at = end
    return blocks


def decode_block(block: bytes) -> Block:
    """Return the columns of a whole block."""
    head, body = _parts(block)
    columns = {column["name"]: _read_values(column, head["rows"], body) for column in head["columns"]}
    return Block(head["start"], head["end"], head["tail"], columns)


def read_block_end(block: bytes) -> int:
    """Return the offset behind the last row of a whole block."""
    head, _ = _parts(block)
    return int(head["end"])


def describes(blocks: Iterable[bytes], rows: IO[bytes]) -> bool:
    """Return whether blocks belong to the open file of rows: they follow one another, and each has its tail."""
    at = 0
    for block in blocks:
        head, _ = _parts(block)
        at_tail = max(head["start"], head["end"] - _TAIL_BYTES)
        rows.seek(at_tail)
        if head["start"] != at or zlib.crc32(rows.read(head["end"] - at_tail)) != head["tail"]:
            return False
        at = head["end"]
    return True


def _text(value: object) -> Label:
    return None if value is None else str(value)


def _parts(block: bytes) -> tuple[dict[str, Any], memoryview]:
    _, head, _, _ = _FRAME.unpack_from(block)
    body_at = _FRAME.size + head
    return orjson.loads(memoryview(block)[_FRAME.size : body_at]), memoryview(block)[body_at:]


def _number_column(name: str, values: Sequence[float], body: bytearray) -> dict[str, Any]:
    numbers = array("d", values)
    if all(map(float.is_integer, numbers)) and max(numbers) < _EXACT and min(numbers) > -_EXACT:
        return _whole_column(name, [*map(int, numbers)], body)
    known = [None if math.isnan(number) else number for number in numbers]
    if len(set(known)) < _FEW:
        return _code_column(name, known, body)
    return {"name": name, **_append("f8", numbers, body)}


def _whole_column(name: str, numbers: Sequence[int], body: bytearray) -> dict[str, Any]:
    if numbers.count(numbers[0]) == len(numbers):
        return {"name": name, "same": numbers[0]}
    return {"name": name, **_pack(numbers, body)}


def _code_column(name: str, values: Sequence[float | Label], body: bytearray) -> dict[str, Any]:
    codes: dict[float | Label, int] = {}
    places = [codes.setdefault(value, len(codes)) for value in values]
    if len(codes) == 1:
        return {"name": name, "same": values[0]}
    return {"name": name, "values": list(codes), **_pack(places, body)}


def _pack(numbers: Sequence[int], body: bytearray) -> dict[str, Any]:
    """Append integers in the smallest form that holds them; as floats, which are exact to 2 ** 53, if none does."""
    largest = max(max(numbers), -1 - min(numbers))
    for kind, code, bound in _INTEGERS:
        if largest < bound:
            return _append(kind, array(code, numbers), body)
    return _append("f8", array("d", numbers), body)


def _append(kind: str, numbers: array[Any], body: bytearray) -> dict[str, Any]:
    if sys.byteorder == "big":
        numbers.byteswap()
    at = len(body)
    body += numbers.tobytes()
    body += bytes(-len(body) % 8)  # aligned for the typed arrays of a browser
    return {"kind": kind, "at": at}


def _read_values(column: Mapping[str, Any], rows: int, body: memoryview) -> Sequence[Any]:
    if "kind" not in column:
        return [column["same"]] * rows
    numbers = array(_CODES[column["kind"]])
    numbers.frombytes(body[column["at"] : column["at"] + rows * numbers.itemsize])
    if sys.byteorder == "big":
        numbers.byteswap()
    values = column.get("values")
    return numbers if values is None else [values[place] for place in numbers]
