"""Tasks fetched from a folder, an archive or a URL into a new folder of this machine.

Fetched content is untrusted: paths, links, sizes and counts are checked, and nothing is run. A folder appears whole or
not at all.
"""

from __future__ import annotations

import hashlib
import shutil
import stat
import tarfile
import tempfile
import urllib.request
import zipfile
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.error import URLError
from urllib.parse import urlsplit

from nemo_gym.failures import ConfigError
from nemo_gym.sources.task_folders.dataset import FolderDataset, find_tasks

MOST_BYTES: Final = 8 << 30
MOST_FILES: Final = 1_000_000
_TIMEOUT_S = 60.0
_CHUNK = 1 << 20


def pull_tasks(source: str, target: Path, sha256: str | None = None) -> FolderDataset:
    """Fetch tasks from a folder, an archive (tar or zip) or its URL into a new folder, and return them.

    Raises ConfigError for a source that cannot be fetched, that has another digest, or that is unsafe.
    """
    if target.exists():
        raise ConfigError(f"{target} exists already.", code="folder_exists", remedy="Choose another folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".pull-") as work:
        new = Path(work) / "new"
        try:
            _fetch(source, new, Path(work), sha256)
        except (OSError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
            raise ConfigError(f"{source} cannot be pulled: {error}", code="pull_failed") from error
        inner = _find_root(new)
        find_tasks(inner)
        inner.rename(target)
    return find_tasks(target)


def _fetch(source: str, new: Path, work: Path, sha256: str | None) -> None:
    scheme = urlsplit(source).scheme
    if scheme in ("http", "https"):
        archive = work / "archive"
        _download(source, archive)
    elif Path(source).expanduser().is_dir():
        _copy_folder(Path(source).expanduser().resolve(), new)
        return
    else:
        archive = Path(source.removeprefix("file://")).expanduser()
    if sha256 is not None:
        with archive.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256.removeprefix("sha256:"):
            raise ValueError(f"its SHA-256 is {found}, not {sha256}")
    new.mkdir()
    if zipfile.is_zipfile(archive):
        _unpack_zip(archive, new)
    else:
        _unpack_tar(archive, new)


class _NoOtherScheme(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https alone."""

    def redirect_request(  # type: ignore[no-untyped-def]
        self, request, file, code, message, headers, url
    ) -> urllib.request.Request | None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise URLError(f"it redirects to {url}")
        return super().redirect_request(request, file, code, message, headers, url)


def _download(url: str, archive: Path) -> None:
    opener = urllib.request.build_opener(_NoOtherScheme())
    with opener.open(url, timeout=_TIMEOUT_S) as reply, archive.open("wb") as file:
        while chunk := reply.read(_CHUNK):
            file.write(chunk)
            _check_size(1, file.tell())


def _check_size(files: int, size: int) -> None:
    if files > MOST_FILES or size > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_FILES:,} files or {MOST_BYTES >> 30} GiB")


def _copy_folder(source: Path, new: Path) -> None:
    for path in source.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(source):
            raise ValueError(f"{path} leads outside of it")
    shutil.copytree(source, new, symlinks=True, ignore=shutil.ignore_patterns(".git"))


def _unpack_tar(archive: Path, new: Path) -> None:
    size = 0
    with tarfile.open(archive) as tar:
        for count, member in enumerate(tar, 1):
            size += member.size
            _check_size(count, size)
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                raise ValueError(f"{member.name} is no file, folder or link")
            tar.extract(member, new, filter="data")


def _unpack_zip(archive: Path, new: Path) -> None:
    with zipfile.ZipFile(archive) as content:
        members = content.infolist()
        _check_size(len(members), sum(member.file_size for member in members))
        for member in members:
            path = PurePosixPath(member.filename)
            if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
                raise ValueError(f"{member.filename} leads outside of it")
            if stat.S_ISLNK(member.external_attr >> 16):
                raise ValueError(f"{member.filename} is a link")
        content.extractall(new)  # it reads no more than the sizes that were checked


def _find_root(new: Path) -> Path:
    """Return the folder of the tasks: most archives have one folder at their top."""
    entries = [each for each in new.iterdir() if not each.name.startswith(".")]
    is_wrapped = len(entries) == 1 and entries[0].is_dir() and not (entries[0] / "task.toml").is_file()
    return entries[0] if is_wrapped else new
