"""The files of an export, by their ending: JSONL, plain or compressed with gzip or zstd, Parquet, and a JSON document.

A file is written under a temporary name and renamed when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import dump_json, parse_json
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import ENDINGS as JSONL_ENDINGS
from nemo_gym.rollouts.plan.dataset import read_lines

ENDINGS = (*JSONL_ENDINGS, ".parquet")
DOCUMENT = ".json"
"""The ending of a file that is one object, whose last member is the list of rows."""
_BATCH_ROWS = 1000


def find_ending(path: Path) -> str:
    """Return which of `ENDINGS` the name has, or `DOCUMENT`. Raises `ConfigError` for another."""
    for ending in (*ENDINGS, DOCUMENT):
        if path.name.endswith(ending) and path.name != ending:
            return ending
    raise ConfigError(
        f"the output {path} ends in none of {', '.join(ENDINGS)}",
        code="output_ending",
        remedy=f"Write to +output={path.with_suffix('.jsonl')}, for example.",
    )


def build_split_path(path: Path, split: str) -> Path:
    """`data/sft.jsonl.zst` and `train` → `data/sft_train.jsonl.zst`."""
    ending = find_ending(path)
    return path.with_name(f"{path.name.removesuffix(ending)}_{split}{ending}")


def open_row_file(
    path: Path, header: Mapping[str, Any] | None = None, member: str = "rows"
) -> AbstractContextManager[BinaryIO]:
    """Open a new file that takes JSON lines. Raises `ConfigError` where it can't be written.

    `header` has the other members of a document, and `member` names its rows.
    """
    if find_ending(path) == DOCUMENT:
        return _open_document(path, header or {}, member)
    return _open_parquet(path) if find_ending(path) == ".parquet" else replacing(path)


def has_rows(path: Path) -> bool:
    """Return whether a path is taken: not by the empty file of an export without rows, which a new one replaces."""
    if not path.is_file():
        return path.exists()
    try:
        if find_ending(path) == ".parquet":
            return bool(_import_pyarrow().parquet.read_metadata(path).num_rows)
        if find_ending(path) == DOCUMENT:
            return path.stat().st_size > 0
        return next(read_lines(path), None) is not None
    except (ConfigError, ValueError):  # it is no file of an export
        return True


@contextmanager
def _open_document(path: Path, header: Mapping[str, Any], member: str) -> Iterator[BinaryIO]:
    opening = dump_json({**header, member: []}).removesuffix(b"]}")
    with replacing(path) as target:
        target.write(opening)
        yield cast(BinaryIO, _RowList(target))
        target.write(b"]}\n")


class _RowList:
    """Writes lines as the elements of a list."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._separator = b"\n"

    def write(self, line: bytes) -> None:
        self._target.write(self._separator + line.rstrip(b"\n"))
        self._separator = b",\n"


@contextmanager
def _open_parquet(path: Path) -> Iterator[BinaryIO]:
    """Buffer the rows in a compressed file: the type of a column depends on all of them."""
    pyarrow = _import_pyarrow()
    buffered = path.with_name(f".{path.name}.rows.zst")
    with replacing(path) as target:
        try:
            with zstandard.open(buffered, "wb") as file:
                yield cast(BinaryIO, file)
            _write_parquet(pyarrow, buffered, target, path)
        finally:
            buffered.unlink(missing_ok=True)


def _import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(
            "Parquet needs pyarrow, which is not installed",
            code="pyarrow_missing",
            remedy="pip install 'nemo_gym[export]', or write .jsonl.",
        ) from error
    return pyarrow


def _write_parquet(pyarrow: Any, buffered: Path, target: BinaryIO, path: Path) -> None:
    try:
        schema = pyarrow.unify_schemas(
            [pyarrow.Table.from_pylist(rows).schema for rows in _batches(buffered)] or [pyarrow.schema([])],
            promote_options="permissive",
        )
        with pyarrow.parquet.ParquetWriter(target, schema, compression="zstd") as writer:
            for rows in _batches(buffered):
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    except (pyarrow.ArrowException, OverflowError) as error:
        raise ConfigError(
            f"the rows don't fit the columns of {path}: {error}",
            code="not_columns",
            remedy="Write .jsonl: a Parquet column has one type for all rows.",
        ) from error


def _batches(buffered: Path) -> Iterator[list[dict[str, Any]]]:
    rows = (parse_json(line.content) for line in read_lines(buffered))
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield batch
