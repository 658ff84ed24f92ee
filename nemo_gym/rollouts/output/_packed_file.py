"""A compressed JSONL file that grows, and that outlives the death of its writer as a plain one does.

While it is open, all its rows are in a plain file beside it, `<name>.journal`. Closing compresses the journal, whole:

    journal holds rows ──▶ draft half written ──▶ draft renamed, journal still there ──▶ compressed file alone

A journal that is not empty holds every row, whatever else is there; without one, the compressed file does. So
`kill -9` between any two steps, or within one, loses nothing and doubles nothing. Opening such a file again unpacks it
into a journal in the same way: by a draft that is renamed when it is whole.
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
from nemo_gym.rollouts.plan.compression import DAMAGE, Codec, Frames, codec_of, journal_of

log = logging.getLogger(__name__)

_BLOCK: Final = 1 << 20
_LARGE: Final = 100_000_000
"""Bytes from which on compressing takes so long that it is announced."""
_UNKNOWN: Final = -1


class PackedFile(AppendFile):
    """The journal of a compressed file, open for appending and locked against a second writer."""

    def __init__(self, packed: Path, codec: Codec) -> None:
        """Raises `ConfigError` as `AppendFile` does, and for a compressed file that is damaged elsewhere than at its
        end."""
        super().__init__(journal_of(packed))
        self._packed = packed
        self._packed_size = _UNKNOWN
        """Bytes of the journal when the compressed file holds exactly these."""
        if self.size == 0 and packed.exists():
            try:
                is_whole = _unpack(packed, codec, self.path)
            finally:
                super().close()
            super().__init__(self.path)
            self._packed_size = self.size if is_whole else _UNKNOWN

    def close(self) -> None:
        """Compress, and close. When the disk refuses that, the journal stays and nothing is lost."""
        try:
            self._pack()
        except (ConfigError, OSError) as error:
            log.warning("the rows of %s stay in %s: %s", self._packed.name, self.path, error)
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
    """`path` open for appending, compressed if its name says so. Raises `ConfigError` as those do."""
    codec = codec_of(path)
    return AppendFile(path) if codec is None else PackedFile(path, codec)


def _unpack(packed: Path, codec: Codec, journal: Path) -> bool:
    """Make `journal` hold the content of `packed`, and tell whether that was whole: its end may have been cut off."""
    with replacing(journal) as plain, Frames(packed.open("rb"), codec) as content:
        try:
            shutil.copyfileobj(content, plain, _BLOCK)
        except EOFError:
            return False
        except DAMAGE as error:
            raise ConfigError(
                f"{packed} is damaged: {error}",
                code="damaged_output",
                remedy="Restore it from a copy, or start anew with +overwrite=true (it is moved aside).",
            ) from error
        return True
