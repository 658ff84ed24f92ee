"""Datasets in the forms of others become task rows: `messages`, nested tools, questions with answers, arrays, CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.inputs import refuse_inputs
from nemo_gym.rollouts.plan.compression import open_content
from nemo_gym.rollouts.plan.dataset import locate, read_lines
from nemo_gym.rollouts.plan.row_forms import CSV_ENDINGS, convert_row, find_lacking_columns
from nemo_gym.rollouts.plan.task_rows import SHOWN_FAULTS

_SEPARATORS = {",": "commas", "\t": "tabs"}


def convert_dataset(source: Path, output: Path) -> int:
    """Write the task rows of a file, and return their number. Raises `ConfigError` with all rows that have none."""
    source = locate(source)
    refuse_inputs([output], [source])
    count, faults = 0, []
    with replacing(output) as file:
        for place, row in _read_rows(source):
            try:
                if isinstance(row, ValueError):
                    raise row
                if not isinstance(row, dict):
                    raise ValueError("it is not a JSON object")
                file.write(orjson.dumps(convert_row(row)) + b"\n")
                count += 1
            except ValueError as error:  # of orjson as well
                faults.append(f"{place}: {error}")
        if faults or not count:
            listed = "".join(f"\n  {fault}" for fault in islice(faults, SHOWN_FAULTS))
            more = f"\n  … and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
            raise ConfigError(
                f"{source} has rows that are no tasks:{listed}{more}" if faults else f"{source} has no rows",
                code="malformed_rows",
            )
    return count


def _read_rows(source: Path) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a file of lines, of one array or of a table, or the errors in their stead, with the places."""
    first = next(iter(read_lines(source)), None)
    if first is not None and first.content.lstrip()[:1] == b"[":
        with open_content(source) as file:
            try:
                rows = orjson.loads(file.read())
            except orjson.JSONDecodeError as error:
                raise ConfigError(f"{source} is not JSON: {error}", code="malformed_rows") from error
        yield from ((f"{source}[{number}]", row) for number, row in enumerate(rows))
        return
    if first is not None and source.suffix in CSV_ENDINGS and first.content.lstrip()[:1] != b"{":
        yield from _read_table(source)
        return
    for number, content in read_lines(source):
        try:
            yield f"{source}:{number}", orjson.loads(content)
        except orjson.JSONDecodeError as error:
            yield f"{source}:{number}", ValueError(f"it is not JSON: {error}")


def _read_table(source: Path) -> Iterator[tuple[str, dict[str, str] | ValueError]]:
    """Yield the rows of a table, whose first line names the members, as `_read_rows` does."""
    separator = CSV_ENDINGS[source.suffix]
    with source.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, delimiter=separator)
        try:
            columns = list(rows.fieldnames or ())
            if (lacking := find_lacking_columns(columns)) is not None:
                raise ConfigError(
                    f"{source} is no table of tasks: its columns, separated by {_SEPARATORS[separator]}, are "
                    f"{', '.join(f'`{column}`' for column in columns)}",
                    code="malformed_rows",
                    remedy=f"A table of tasks needs {lacking}.",
                )
            for row in rows:
                place = f"{source}:{rows.line_num}"
                if None in row or None in row.values():
                    yield place, ValueError(f"the row has not the {len(columns)} cells of the first line")
                else:
                    yield place, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{source} is no table after line {rows.line_num}: {error}", code="malformed_rows"
            ) from error
