"""Files on their way out of a sandbox are untrusted."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.sources.task_folders import sandboxes
from nemo_gym.sources.task_folders.sandboxes import _pack, _unpack_safely


def make_tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size) if member.isreg() else None)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 1) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    info.size = size if kind == tarfile.REGTYPE else 0
    return info


def test_only_files_folders_and_inner_links_come_out(tmp_path: Path) -> None:
    packed = make_tar(
        tmp_path / "tar",
        member("./good/file"),
        member("../escaped"),
        member("/absolute"),
        member("far", tarfile.SYMTYPE, "/etc/passwd"),
        member("up", tarfile.SYMTYPE, "../../x"),
        member("near", tarfile.SYMTYPE, "good/file"),
        member("pipe", tarfile.FIFOTYPE),
        member("device", tarfile.CHRTYPE),
    )
    _unpack_safely(packed, tmp_path / "out" / "deep", is_folder=True)
    found = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*"))
    assert found == ["deep", "deep/absolute", "deep/good", "deep/good/file", "deep/near"]
    assert not (tmp_path / "escaped").exists()


def test_a_file_gets_the_name_of_its_place(tmp_path: Path) -> None:
    _unpack_safely(make_tar(tmp_path / "tar", member("answer")), tmp_path / "out" / "kept", is_folder=False)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["kept"]


def test_artifacts_that_are_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "_MOST_BYTES", 10)
    packed = make_tar(tmp_path / "tar", member("a", size=6), member("b", size=6))
    with pytest.raises(VerifierError, match="too large"):
        _unpack_safely(packed, tmp_path / "out", is_folder=True)


def test_files_of_a_task_are_packed_without_their_owners_and_special_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    (tmp_path / "link").symlink_to("a")
    names = ("a", "b", "link")
    with tarfile.open(fileobj=io.BytesIO(_pack((tmp_path / name, name) for name in names))) as tar:
        assert [(each.name, each.isreg(), each.uid) for each in tar] == [
            ("a", True, 0),
            ("b", True, 0),
            ("link", False, 0),
        ]
