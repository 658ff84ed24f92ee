"""Containers on this machine, with images, network addresses and a storage of their own, which ends with the block.

No registry of images takes part: an image is a folder with Debian's packages, or what a Dockerfile makes of that.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.waiting import wait_until

_CERTIFICATES = "/etc/ssl/certs"
_LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")
"""Lower than podman's own, which a user without its limits cannot set."""


@cache
def why_not() -> str | None:
    """The reason why no containers can be made here; None if they can."""
    missing = [name for name in ("podman", "runc", "debootstrap") if _where(name) is None]
    return f"there is no {', '.join(missing)} (Debian's packages have these names)" if missing else None


def _where(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


@dataclass(frozen=True)
class Podman:
    """Podman with a storage in `folder`."""

    folder: Path

    def words(self, *words: str) -> list[str]:
        """The command line of podman."""
        storage = (f"--root={self.folder}/storage", f"--runroot={self.folder}/state")
        return ["podman", "--runtime=runc", *storage, *words]

    def run(self, *words: str, timeout_s: float = 120.0) -> str:
        """Run podman, and return its output. Raises `AssertionError` if it fails."""
        done = subprocess.run(
            self.words(*words), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert done.returncode == 0, (
            f"podman {' '.join(words[:2])}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
        return done.stdout.strip()

    def import_root(self, root: Path, name: str) -> None:
        """Make an image of the files below a folder."""
        archive = self.folder / "root.tar"
        subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
        self.run("import", "--quiet", str(archive), name)
        archive.unlink()

    def build(self, dockerfile: Path, sources: Path, name: str) -> None:
        """Execute a Dockerfile. Its steps reach the package registry as this machine does."""
        reach = ("--network=host", f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro")
        options = ("--isolation=chroot", "--pull=never", *reach, f"--file={dockerfile}", f"--tag={name}")
        self.run("build", *options, str(sources), timeout_s=600)

    def start(self, name: str, *words: str) -> str:
        """Start a container in the background, with the options and the command in `words`. Returns its address."""
        self.run("run", "--detach", f"--name={name}", f"--hostname={name}", *_LIMITS, *words)
        wait_until(lambda: self.run("inspect", "--format={{.State.Status}}", name) == "running")
        return self.run("inspect", "--format={{.NetworkSettings.IPAddress}}", name)

    def in_front(self, *words: str) -> Sequence[str]:
        """The command line of a container that ends with its command."""
        return self.words("run", "--rm", *_LIMITS, *words)


def debian_with_python(root: Path) -> None:
    """Fill a folder with the Debian root of an image like `python:slim`: `pip` installs for everyone."""
    packages = "--include=python3,python3-pip,python3-venv,ca-certificates"
    words = [str(_where("debootstrap")), "--variant=minbase", packages, "stable", str(root)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    for refusal in (root / "usr" / "lib").glob("python3*/EXTERNALLY-MANAGED"):
        refusal.unlink()
    (root / "usr" / "bin" / "python").symlink_to("python3")


@contextlib.contextmanager
def podman() -> Iterator[Podman]:
    """Podman with an empty storage, whose containers and images are gone after the block."""
    with tempfile.TemporaryDirectory(prefix="ng") as folder:  # podman refuses long paths
        made = Podman(Path(folder))
        try:
            yield made
        finally:
            made.run("rm", "--all", "--force", "--time=0")
            made.run("rmi", "--all", "--force")
            for mounted in ("storage/overlay", "storage"):
                subprocess.run(["umount", made.folder / mounted], capture_output=True, check=False)
