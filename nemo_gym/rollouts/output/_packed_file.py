"""An append-only compressed JSONL file that survives the death of its writer.

While it is open, all rows are in a plain file beside it, `<name>.journal`. Closing compresses the whole journal:

    journal holds rows ──▶ draft partly written ──▶ draft renamed, journal still exists ──▶ compressed file only

A journal that is not empty holds every row; otherwise the compressed file does. `kill -9` at any point therefore
neither loses nor duplicates rows. Opening the file again unpacks it into a journal, also through a renamed draft.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Final

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output._append_file import AppendFile
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.disk import disk
from nemo_gym.rollouts.plan.compression import DAMAGE, Codec, Frames, build_journal_path, find_codec

log = logging.getLogger(__name__)

_BLOCK: Final = 1 << 20
_LARGE: Final = 100_000_000
"""Bytes of a journal whose compression takes long enough to be logged."""
_UNKNOWN: Final = -1


class PackedFile(AppendFile):
    """The journal of a compressed file, open for appending and locked against a second writer."""

    def __init__(self, packed: Path, codec: Codec) -> None:
        """Raises `ConfigError` as `AppendFile` does, and for a compressed file that is damaged before its end."""
        super().__init__(build_journal_path(packed))
        self._packed = packed
        self._packed_size = _UNKNOWN
        """The size of the journal if the compressed file holds exactly its content."""
        if self.size == 0 and packed.exists():
            try:
                is_whole = _unpack(packed, codec, self.path)
            finally:
                super().close()
            super().__init__(self.path)
            self._packed_size = self.size if is_whole else _UNKNOWN

    def close(self) -> None:
        """Compress and close. If the disk refuses it, the journal stays and nothing is lost."""
        try:
            self._pack()
        except (ConfigError, OSError) as error:
            log.warning("cannot compress %s; its rows stay in %s: %s", self._packed.name, self.path, error)
        super().close()

    def _pack(self) -> None:
        if self.size == self._packed_size:
            disk().remove(self.path)
        elif self.size == 0:
            disk().rename(self.path, self._packed)
        else:
            if self.size > _LARGE:
                log.warning("compressing %s (%d MB)", self._packed, self.size // 1_000_000)
            with replacing(self._packed) as packed, self.path.open("rb") as rows:
                shutil.copyfileobj(rows, packed, _BLOCK)


def append_to(path: Path) -> AppendFile:
    """Open `path` for appending, compressed according to its name. Raises `ConfigError` as the classes do."""
    codec = find_codec(path)
    return AppendFile(path) if codec is None else PackedFile(path, codec)


def _unpack(packed: Path, codec: Codec, journal: Path) -> bool:
    """Decompress `packed` into `journal`. Return False if `packed` is truncated."""
    with replacing(journal) as plain, Frames(packed.open("rb"), codec) as content:
        try:
            shutil.copyfileobj(content, plain, _BLOCK)
        except EOFError:
            return False
        except DAMAGE as error:
            raise ConfigError(
                f"{packed} is damaged: {error}",
                code="damaged_output",
                remedy="Restore it from a copy, or start again with +overwrite=true (it is moved aside).",
            ) from error
        return True
