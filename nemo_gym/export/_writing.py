"""The files of an export, by their ending: JSONL, plain or compressed by gzip or zstd, and Parquet.

A file is written beside its place and moved there when it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import orjson
import zstandard

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import ENDINGS as JSONL_ENDINGS
from nemo_gym.rollouts.plan.dataset import read_lines

ENDINGS = (*JSONL_ENDINGS, ".parquet")
_ROWS_AT_ONCE = 1000


class RowFile(Protocol):
    """A file that rows are added to."""

    def add(self, line: bytes) -> None:
        """Add a row, given as JSON."""


def ending_of(path: Path) -> str:
    """Which of `ENDINGS` the name has. Raises `ConfigError` for another."""
    for ending in ENDINGS:
        if path.name.endswith(ending) and path.name != ending:
            return ending
    raise ConfigError(
        f"the output {path} ends in none of {', '.join(ENDINGS)}",
        code="output_ending",
        remedy=f"Write to +output={path.with_suffix('.jsonl')}, for example.",
    )


def path_of_split(path: Path, split: str) -> Path:
    """`data/sft.jsonl.zst` and `train` → `data/sft_train.jsonl.zst`."""
    ending = ending_of(path)
    return path.with_name(f"{path.name.removesuffix(ending)}_{split}{ending}")


def open_row_file(path: Path) -> AbstractContextManager[RowFile]:
    """The file, new and empty, for as long as the context lasts. Raises `ConfigError` where it can't be written."""
    return _parquet(path) if ending_of(path) == ".parquet" else _jsonl(path)


class _Lines:
    def __init__(self, file: Any) -> None:
        """`file` is open for writing bytes."""
        self._file = file

    def add(self, line: bytes) -> None:
        self._file.write(line + b"\n")


@contextmanager
def _jsonl(path: Path) -> Iterator[RowFile]:
    with replacing(path) as file:
        yield _Lines(file)


@contextmanager
def _parquet(path: Path) -> Iterator[RowFile]:
    """Rows wait in a compressed file until all are known: columns have one type for all of them."""
    pyarrow = _import_pyarrow()
    waiting = path.with_name(f".{path.name}.rows.zst")
    with replacing(path) as whole:
        try:
            with zstandard.open(waiting, "wb") as file:
                yield _Lines(file)
            _write_parquet(pyarrow, waiting, whole, path)
        finally:
            waiting.unlink(missing_ok=True)


def _import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(
            "Parquet needs pyarrow, which is not installed",
            code="pyarrow_missing",
            remedy="pip install 'nemo-gym[export]', or write .jsonl.",
        ) from error
    return pyarrow


def _write_parquet(pyarrow: Any, waiting: Path, whole: BinaryIO, path: Path) -> None:
    try:
        schema = pyarrow.unify_schemas(
            [pyarrow.Table.from_pylist(rows).schema for rows in _batches(waiting)] or [pyarrow.schema([])],
            promote_options="permissive",
        )
        with pyarrow.parquet.ParquetWriter(whole, schema, compression="zstd") as writer:
            for rows in _batches(waiting):
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    except pyarrow.ArrowException as error:
        raise ConfigError(
            f"the rows don't fit into the columns of {path}: {error}",
            code="not_columns",
            remedy="Write .jsonl: a column of Parquet has one type for all rows.",
        ) from error


def _batches(waiting: Path) -> Iterator[list[dict[str, Any]]]:
    rows = (orjson.loads(line.content) for line in read_lines(waiting))
    while batch := list(islice(rows, _ROWS_AT_ONCE)):
        yield batch
