"""Datasets in the forms of others become task rows: `messages`, nested tools, and JSON arrays."""

from __future__ import annotations

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
from nemo_gym.rollouts.plan.row_forms import convert_row
from nemo_gym.rollouts.plan.task_rows import SHOWN_FAULTS


def convert_dataset(source: Path, output: Path) -> int:
    """Write the task rows of a file, and return their number. Raises `ConfigError` with all rows that have none."""
    source = locate(source)
    refuse_inputs([output], [source])
    count, faults = 0, []
    with replacing(output) as file:
        for place, row in _read_rows(source):
            try:
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
    """Yield the rows of a file of lines, or of one array, each with its place."""
    first = next(iter(read_lines(source)), None)
    if first is not None and first.content.lstrip()[:1] == b"[":
        with open_content(source) as file:
            try:
                rows = orjson.loads(file.read())
            except orjson.JSONDecodeError as error:
                raise ConfigError(f"{source} is not JSON: {error}", code="malformed_rows") from error
        yield from ((f"{source}[{number}]", row) for number, row in enumerate(rows))
        return
    for number, content in read_lines(source):
        try:
            yield f"{source}:{number}", orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise ConfigError(f"{source}:{number} is not JSON: {error}", code="malformed_rows") from error
