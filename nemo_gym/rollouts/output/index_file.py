"""The index file of a file of rows: read, and brought up to date at the end of a run.

Columns of a row cost about twice the time of parsing it. So the collector does not make them: a worker does, once,
beside the metrics at the end. A run that was killed has the index of its last end, which describes the first of its
rows, and a viewer reads the others.
"""

from __future__ import annotations

import logging
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from nemo_gym.failures import GymError
from nemo_gym.processes.workers import WorkerPool
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.row_index import build_blocks, describes, read_block_end, split_blocks
from nemo_gym.rollouts.plan.compression import build_journal_path
from nemo_gym.rollouts.plan.dataset import opened_plain

log = logging.getLogger(__name__)

INDEXED_BYTES: Final = 16 << 20
"""Smaller files have no index: a viewer reads them at once."""
_TIMEOUT_S: Final = 3600.0


def read_stored_blocks(index: Path, rows: BinaryIO) -> list[bytes]:
    """Return the blocks of a stored index that describes the beginning of `rows`; none if it does not."""
    try:
        blocks = split_blocks(index.read_bytes())
    except OSError:
        return []
    return blocks if describes(blocks, rows) else []


def extend_index(rows: Path, index: Path) -> None:
    """Write the index of a file of rows, from the blocks of an earlier one and the rows behind them.

    Raises `ConfigError` if the rows cannot be read or the index cannot be written.
    """
    with opened_plain(rows) as content:
        blocks = read_stored_blocks(index, content)
        end = read_block_end(blocks[-1]) if blocks else 0
        content.seek(end)
        write_atomically(index, chain(blocks, build_blocks(content, end)))


async def index_large_rows(files: RunFiles, *, least_bytes: int = INDEXED_BYTES) -> None:
    """Bring the index of a run's rows up to date in a worker, if they have `least_bytes`. A failure is only logged."""
    path = next((each for each in (build_journal_path(files.rows), files.rows) if each.exists()), None)
    if path is None or path.stat().st_size < least_bytes:
        return
    pool = WorkerPool(1)
    try:
        await pool.run(extend_index, path, files.index, timeout_s=_TIMEOUT_S)
    except GymError as error:
        log.info("the index %s is not written: %s", files.index, error)
    finally:
        await pool.close()
