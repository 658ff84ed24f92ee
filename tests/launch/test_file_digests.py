"""Digests of files, which are kept for large ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_gym.launch import _file_digests
from nemo_gym.launch._file_digests import FileDigests

LARGE = b"x" * (1 << 17)
OLD_NS = 1_000_000_000_000_000_000


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "digests.json"


def digest(path: Path, cache: Path) -> str | None:
    digests = FileDigests(cache)
    found = digests.digest(path)
    digests.keep()
    return found


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file count as written long ago."""
    monkeypatch.setattr(_file_digests, "_SETTLED_S", -1e9)


def test_a_large_file_is_read_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    path = tmp_path / "shop.sqlite"
    path.write_bytes(LARGE)
    first = digest(path, cache)
    assert cache.exists()
    monkeypatch.setattr("hashlib.file_digest", None)  # a second reading would fail
    assert digest(path, cache) == first


def test_a_change_of_the_same_size_and_time_is_seen(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    path = tmp_path / "shop.sqlite"
    path.write_bytes(LARGE)
    os.utime(path, ns=(OLD_NS, OLD_NS))
    first = digest(path, cache)
    path.write_bytes(LARGE[:-1] + b"y")
    os.utime(path, ns=(OLD_NS, OLD_NS))
    assert digest(path, cache) != first


def test_a_file_that_was_just_written_is_not_kept(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "shop.sqlite"
    path.write_bytes(LARGE)
    assert digest(path, cache)
    assert not cache.exists()


def test_small_files_and_missing_ones_need_no_cache(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "gold.json").write_text("{}")
    assert digest(tmp_path / "gold.json", cache)
    assert digest(tmp_path / "gone.json", cache) is None
    assert not cache.exists()


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"%s": 3}'])
def test_a_damaged_cache_is_replaced(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    settle(monkeypatch)
    path = tmp_path / "shop.sqlite"
    path.write_bytes(LARGE)
    expected = digest(path, tmp_path / "other.json")
    cache.parent.mkdir()
    cache.write_bytes(content.replace(b"%s", str(path).encode()))
    assert digest(path, cache) == expected


def test_a_cache_that_cannot_be_written_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(monkeypatch)
    (tmp_path / "file").write_text("")
    path = tmp_path / "shop.sqlite"
    path.write_bytes(LARGE)
    assert digest(path, tmp_path / "file" / "digests.json")


def test_a_very_large_file_is_known_by_its_size_and_samples(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_file_digests, "_LARGEST_WHOLE", 1 << 20)
    path = tmp_path / "corpus.bin"
    with path.open("wb") as file:
        file.truncate(300 << 20)
    first = digest(path, cache)
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"y")
    changed = digest(path, cache)
    with path.open("ab") as file:
        file.write(b"y")
    assert len({first, changed, digest(path, cache)}) == 3
