"""Rows of compressed files, and how other tools read them."""

from __future__ import annotations

import gzip
from pathlib import Path

import zstandard

from nemo_gym.rollouts.plan.compression import CODECS, build_journal_path, open_content

ROWS = [b'{"n":%d,"text":"%b"}' % (number, b"x" * (7 * number % 40)) for number in range(12)]


CONTENT = b"".join(row + b"\n" for row in ROWS)


PACKINGS = sorted(CODECS)


def lines(path: Path) -> list[bytes]:
    if not path.exists() and not build_journal_path(path).exists():
        return []
    with open_content(path) as file:
        return file.read().splitlines()


def decompressed(path: Path) -> bytes:
    """The content of the file as read by a third-party tool."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    with zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True) as reader:
        return reader.read()
