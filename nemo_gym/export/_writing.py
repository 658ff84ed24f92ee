"""The files of an export, by their ending: JSONL, plain or compressed with gzip or zstd, and Parquet.

A file is written under a temporary name and renamed when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import parse_json
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import ENDINGS as JSONL_ENDINGS
from nemo_gym.rollouts.plan.dataset import read_lines

ENDINGS = (*JSONL_ENDINGS, ".parquet")
_BATCH_ROWS = 1000


def find_ending(path: Path) -> str:
    """Return which of `ENDINGS` the name has. Raises `ConfigError` for another."""
    for ending in ENDINGS:
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


def open_row_file(path: Path) -> AbstractContextManager[BinaryIO]:
    """Open a new file that takes JSON lines. Raises `ConfigError` where it can't be written."""
    return _open_parquet(path) if find_ending(path) == ".parquet" else replacing(path)


def has_rows(path: Path) -> bool:
    """Return whether a path is taken: not by the empty file of an export without rows, which a new one replaces."""
    if not path.is_file():
        return path.exists()
    try:
        if find_ending(path) == ".parquet":
            return bool(_import_pyarrow().parquet.read_metadata(path).num_rows)
        return next(read_lines(path), None) is not None
    except (ConfigError, ValueError):  # it is no file of an export
        return True


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
