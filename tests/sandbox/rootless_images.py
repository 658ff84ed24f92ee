"""An image for tests that needs no installation: the programs of this machine, read-only, over a small layer."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nemo_gym.sandbox.providers.rootless.launch import find_missing
from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider
from nemo_gym.sandbox.providers.rootless.store import Image

HOST_IMAGE = "host"
READABLE = ["/usr", "/etc/alternatives"]
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_ACCOUNTS = "root:x:0:0:root:/root:/bin/bash\nworker:x:1000:1000::/home/worker:/bin/bash\n"

needs_rootless = pytest.mark.skipif(
    find_missing() is not None, reason=f"no rootless sandbox here: {find_missing()}"
)


@contextmanager
def host_provider() -> Iterator[RootlessProvider]:
    """Yield a provider whose store, in a folder that every user can enter, has the image of this machine's programs."""
    folder = Path(tempfile.mkdtemp(prefix="nemo_gym_images_"))
    folder.chmod(0o755)
    try:
        provider = RootlessProvider(store=str(folder), default_timeout_s=60)
        provider.store.prepare()
        write_host_layer(provider, HOST_IMAGE)
        provider.store.add(HOST_IMAGE, Image((HOST_IMAGE,), "this machine"))
        yield provider
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_host_layer(provider: RootlessProvider, name: str) -> None:
    """Write a layer that finds the programs of this machine in /usr."""
    layer = provider.store.layer(name)
    for place in (
        "",
        "usr",
        "etc",
        "etc/alternatives",
        "root",
        "home/worker",
        "tmp",
        "proc",
        "dev",
        "var",
        "sys",
    ):
        (layer / place).mkdir(parents=True, exist_ok=True)
    for link, target in _LINKS.items():
        (layer / link).symlink_to(target)
    (layer / "etc" / "passwd").write_text(_ACCOUNTS)
    (layer / "tmp").chmod(0o777)
    for each in (layer, *layer.rglob("*")):
        provider.store.own(each)
