"""Container engines that work on this machine without a network: podman, and docker's command line on podman.

An image is made of the static busybox, since no registry can be reached. Where docker's own command line is installed,
it talks to podman's service; elsewhere `docker` is podman.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sandbox import AsyncSandbox, SandboxSpec

IMAGE = "localhost/nemo-gym-test:latest"
_TOOLS = "sh cat dirname echo hostname id kill ln ls mkdir nc printf pwd setsid sleep stty tail test touch true yes"
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nworker:x:1000:1000::/tmp:/bin/sh\n"


CLOSED: dict[str, Any] = {"create": {"network": "none"}}
"""The options of containers without a network."""


def sandbox_of(engine: str, options: dict[str, Any] | None = None, **fields: Any) -> AsyncSandbox:
    """A sandbox with `IMAGE` of a container engine, by default without a network."""
    return AsyncSandbox({engine: CLOSED if options is None else options}, SandboxSpec(image=IMAGE, **fields))


def _root_file_system(folder: Path, busybox: str) -> Path:
    root = folder / "root"
    for name in ("bin", "etc", "tmp", "root", "proc", "sys", "dev"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy(busybox, root / "bin" / "busybox")
    for tool in _TOOLS.split():
        (root / "bin" / tool).symlink_to("busybox")
    (root / "etc" / "passwd").write_text(_PASSWD)
    archive = folder / "root.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(root, arcname=".")
    return archive


def _settings(folder: Path) -> dict[str, str]:
    """Settings for machines that are containers themselves: fewer open files, runc, storage of our own."""
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    limits = 'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
    (folder / "containers.conf").write_text(f"[containers]\n{limits}[engine]\n{runtime}")
    storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
    (folder / "storage.conf").write_text(storage)
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


@contextmanager
def working_podman(folder: Path) -> Iterator[dict[str, str]]:
    """The environment variables of a podman that has `IMAGE`. The test is skipped if podman cannot run it."""
    podman, busybox = shutil.which("podman"), shutil.which("busybox")
    if podman is None or busybox is None:
        pytest.skip("podman or busybox-static is not installed")
    variables = _settings(folder)
    environment = {**os.environ, **variables}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [podman, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    done = run("import", "--quiet", str(_root_file_system(folder, busybox)), IMAGE)
    if done.returncode == 0:
        done = run("run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", IMAGE, "-c", "exit 0")
    if done.returncode != 0:
        pytest.skip(f"podman does not work here: {done.stderr.strip()[-300:]}")
    yield variables
    run("rm", "--all", "--force", "--time", "0")
    run("rmi", "--all", "--force")


@contextmanager
def docker_on_podman(folder: Path, podman: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment variables of a `docker` whose containers are podman's."""
    docker = shutil.which("docker")
    if docker is None:
        (folder / "docker").symlink_to(shutil.which("podman") or "podman")
        yield {**podman, "PATH": f"{folder}:{os.environ['PATH']}"}
        return
    address = f"unix://{folder}/podman.sock"
    service = subprocess.Popen(
        ["podman", "system", "service", "--time", "0", address],
        env={**os.environ, **podman},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        limit = time.monotonic() + 60
        while not (folder / "podman.sock").exists():
            if service.poll() is not None or time.monotonic() > limit:
                pytest.skip("podman's service does not start")
            time.sleep(0.05)
        yield {**podman, "DOCKER_HOST": address}
    finally:
        service.terminate()
        service.wait()
