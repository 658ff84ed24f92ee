"""Tasks fetched from folders, archives and a server on loopback, hostile ones included."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.task_folders.pull import pull_tasks
from tests.sources.task_folders.task_maker import make_task


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield folder, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kind", ["gztar", "zip", "tar"])
def test_an_archive_of_a_server_is_fetched_and_checked(
    kind: str, served: tuple[Path, str], tmp_path: Path
) -> None:
    folder, url = served
    make_task(tmp_path / "pack" / "tasks" / "one")
    archive = Path(shutil.make_archive(str(folder / "tasks"), kind, tmp_path / "pack"))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    dataset = pull_tasks(f"{url}/{archive.name}", tmp_path / "new", f"sha256:{digest}")
    assert [path.name for path in dataset.folders] == ["one"]
    with pytest.raises(ConfigError, match="its SHA-256 is"):
        pull_tasks(f"{url}/{archive.name}", tmp_path / "other", "0" * 64)
    assert not (tmp_path / "other").exists()
    with pytest.raises(ConfigError, match="exists already"):
        pull_tasks(f"{url}/{archive.name}", tmp_path / "new")


def test_a_folder_is_copied_without_links_that_leave_it(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks" / "one")
    assert len(pull_tasks(str(tmp_path / "tasks"), tmp_path / "new").folders) == 1
    (tmp_path / "tasks" / "one" / "far").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="leads outside"):
        pull_tasks(str(tmp_path / "tasks"), tmp_path / "other")


def test_what_cannot_be_fetched_is_told_why(served: tuple[Path, str], tmp_path: Path) -> None:
    for source in (f"{served[1]}/missing.tgz", f"{served[1]}/redirect", str(tmp_path / "nowhere.zip")):
        with pytest.raises(ConfigError, match="cannot be pulled"):
            pull_tasks(source, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["../escaped", "/absolute", "a/../../escaped", "a\\..\\b"])
def test_a_zip_that_leaves_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(ConfigError, match="cannot be pulled"):
        pull_tasks(str(tmp_path / "bad.zip"), tmp_path / "new" / "tasks")
    assert not (tmp_path / "new" / "escaped").exists()


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("../escaped", tarfile.REGTYPE, ""),
        ("link", tarfile.SYMTYPE, "/etc/passwd"),
        ("hard", tarfile.LNKTYPE, "../../x"),
        ("device", tarfile.CHRTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
    ],
)
def test_a_tar_that_leaves_its_folder_is_refused(name: str, kind: bytes, target: str, tmp_path: Path) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.addfile(info, io.BytesIO())
    with pytest.raises(ConfigError, match="cannot be pulled"):
        pull_tasks(str(tmp_path / "bad.tar"), tmp_path / "new" / "tasks")
