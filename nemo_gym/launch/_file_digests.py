"""Digests of the files that decide the rollouts of servers.

A large file is read once: its digest is kept in the cache folder, by size, times and inode, as git keeps those of its
files. So a start of a gym with a gigabyte of data costs a look at its files. A file that was written just now is not
kept, because a later write might leave the same times.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from io import BufferedReader
from os import stat_result
from pathlib import Path
from typing import Final

import orjson

from nemo_gym.clock import wall_clock
from nemo_gym.launch.records import write_private

_DIGEST_CHARACTERS: Final = 16
_SMALLEST_KEPT: Final = 1 << 16
"""Size in bytes. Reading a smaller file costs no more than keeping its digest."""
_LARGEST_WHOLE: Final = 4 << 30
"""Size in bytes. Of a larger file, only its size and samples of it are digested."""
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 1 << 20
_SETTLED_S: Final = 2.0
"""The age in seconds from which a file has other times after the next write, on any file system."""
_MOST_KEPT: Final = 20_000


def digests_path(working_folder: Path) -> Path:
    """Return the file with the kept digests of the gyms of a folder."""
    return working_folder / ".nemo_gym" / "cache" / "file_digests.json"


class FileDigests:
    """The digests of files, with those of large files kept in a file of the cache folder."""

    def __init__(self, kept_in: Path) -> None:
        self._path = kept_in
        self._kept: dict[str, list[object]] | None = None
        self._has_news = False

    def digest(self, path: Path) -> str | None:
        """Return the digest of a file; None for one that has just been removed, or that this user cannot read."""
        with suppress(OSError), path.open("rb") as file:
            before = path.stat()
            if before.st_size < _SMALLEST_KEPT:
                return hashlib.sha256(file.read()).hexdigest()[:_DIGEST_CHARACTERS]
            return self._digest_large(path, file, before)
        return None

    def _digest_large(self, path: Path, file: BufferedReader, before: stat_result) -> str:
        kept = self._read()
        mark = [before.st_size, before.st_mtime_ns, before.st_ctime_ns, before.st_ino]
        name = str(path.resolve())
        entry = kept.pop(name, None)
        if not isinstance(entry, list) or entry[:-1] != mark:
            hashed = (
                hashlib.file_digest(file, "sha256")
                if before.st_size <= _LARGEST_WHOLE
                else _sample(file, before)
            )
            entry = [*mark, hashed.hexdigest()[:_DIGEST_CHARACTERS]]
            if wall_clock() - max(before.st_mtime, before.st_ctime) < _SETTLED_S:
                return str(entry[-1])
            self._has_news = True
        kept[name] = entry  # at the end, so that the first ones are those not used for longest
        return str(entry[-1])

    def keep(self) -> None:
        """Write the digests that are to be kept. A folder that cannot be written to keeps none."""
        if self._has_news and self._kept is not None:
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                latest = dict([*self._kept.items()][-_MOST_KEPT:])
                write_private(self._path, orjson.dumps(latest).decode())

    def _read(self) -> dict[str, list[object]]:
        if self._kept is None:
            self._kept = {}
            with suppress(OSError, orjson.JSONDecodeError):
                found = orjson.loads(self._path.read_bytes())
                self._kept = found if isinstance(found, dict) else {}
        return self._kept


def _sample(file: BufferedReader, status: stat_result) -> hashlib._Hash:
    """Return the hash of the size of a file and of samples at even distances, the first and the last MiB among them."""
    hashed = hashlib.sha256(b"%d" % status.st_size)
    for number in range(_SAMPLES):
        file.seek((status.st_size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
        hashed.update(file.read(_SAMPLE_BYTES))
    return hashed
