"""The base system of all images: Debian, installed once without root by debootstrap, with a choice of packages.

The installation itself runs in a sandbox that writes to its own folder only, and whose network is this machine's.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nemo_gym.failures import ConfigError
from nemo_gym.isolation.leftovers import remove_tree
from nemo_gym.isolation.system_calls import root_call_filter, write_filter
from nemo_gym.isolation.users import build_user_command
from nemo_gym.sandbox.providers.rootless.launch import RESOLVER
from nemo_gym.sandbox.providers.rootless.store import DEFAULT_PATH, ImageStore

SUITE: Final = "bookworm"
_MIRROR: Final = "http://deb.debian.org/debian"
DEFAULT_PACKAGES: Final = (
    *("bash", "build-essential", "ca-certificates", "curl", "git", "gawk", "jq", "less", "procps"),
    *(
        "python3",
        "python3-pip",
        "python3-venv",
        "python3-pytest",
        "sqlite3",
        "unzip",
        "wget",
        "xz-utils",
        "zip",
    ),
)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "console", "ptmx")
_SYSTEM_LINKS = {"/bin": "usr/bin", "/sbin": "usr/sbin", "/lib": "usr/lib", "/lib64": "usr/lib64"}
_STANDS_FOR = re.compile(
    r"(?:docker\.io/)?(?:library/)?(debian|ubuntu)(?::([\w.-]+))?(?:@sha256:[0-9a-f]{64})?"
)
_FIRST = (
    "mkdir -p /new/root/dev; for d in {devices}; do : > /new/root/dev/$d; done; "
    "debootstrap --foreign --variant=minbase {suite} /new/root {mirror}"
)
_SECOND = "/debootstrap/debootstrap --second-stage"
_FINISH = (
    "printf 'APT::Sandbox::User \"root\";\\n' > /etc/apt/apt.conf.d/00gym && printf '127.0.0.1 localhost sandbox\\n"
    "::1 localhost\\n' > /etc/hosts && apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
    "--no-install-recommends {packages} && apt-get clean && rm -rf /var/lib/apt/lists/* /debootstrap"
)


def find_base_problem(image: str) -> str | None:
    """Return the reason why the base system cannot stand for an image; None if it can."""
    if _STANDS_FOR.fullmatch(image) is None:
        return f"FROM {image}: the base system is Debian, which stands for debian and ubuntu only"
    return None


def name_base(packages: Sequence[str]) -> str:
    """Return the id of the base system with packages beside the default ones."""
    content = json.dumps([SUITE, sorted({*DEFAULT_PACKAGES, *packages})])
    return f"debian-{SUITE}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


async def install_debian(store: ImageStore, packages: Sequence[str] = ()) -> str:
    """Install the base system, unless it is there, and return the id of its layer. Takes minutes.

    Raises ConfigError if debootstrap is missing or fails.
    """
    layer = name_base(packages)
    if store.layer(layer).is_dir():
        return layer
    if shutil.which("debootstrap") is None:
        raise ConfigError(
            "The base system of images cannot be installed here: `debootstrap` is missing.",
            code="sandbox_unavailable",
            remedy="Install it (apt-get install debootstrap), or use docker or podman.",
        )
    new = await asyncio.to_thread(_make_folder, store)
    try:
        await _run(
            store, _host_root(new), _FIRST.format(devices=" ".join(_DEVICES), suite=SUITE, mirror=_MIRROR)
        )
        root = ["--bind", str(new / "root"), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        await _run(store, root, _SECOND)
        wanted = " ".join(sorted({*DEFAULT_PACKAGES, *packages}))
        resolver = ["--ro-bind", str(RESOLVER), str(RESOLVER)]
        await _run(store, [*root, *resolver], _FINISH.format(packages=wanted))
        store.keep_layer(layer, new / "root")
    finally:
        await asyncio.to_thread(remove_tree, new)
    return layer


def _make_folder(store: ImageStore) -> Path:
    store.prepare()
    new = Path(tempfile.mkdtemp(dir=store.folder, prefix="new-"))
    new.chmod(0o755)
    store.own(new)
    return new


def _host_root(new: Path) -> list[str]:
    """The programs of this machine, read-only, and the new folder at /new."""
    links = [part for place, target in _SYSTEM_LINKS.items() for part in ("--symlink", target, place)]
    own = ["--ro-bind", "/usr", "/usr", *links, "--ro-bind", "/etc", "/etc"]
    return [*own, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", str(new), "/new"]


async def _run(store: ImageStore, mounts: Sequence[str], script: str) -> None:
    instructions = root_call_filter()
    assert instructions is not None
    with os.fdopen(write_filter(instructions)) as filter_file:
        command = _build_command(store, mounts, filter_file.fileno())
        process = await asyncio.create_subprocess_exec(
            *command,
            script,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=(filter_file.fileno(),),
        )
        try:
            said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    if process.returncode != 0:
        raise ConfigError(
            f"The base system could not be installed: {said.decode(errors='replace').strip()[-1000:]}",
            code="sandbox_unavailable",
            remedy="It needs the network of this machine, once. Then no run does.",
        )


def _build_command(store: ImageStore, mounts: Sequence[str], filter_file: int) -> list[str]:
    return [
        *(build_user_command(store.owner) if store.owner is not None else ()),
        *("bwrap", "--unshare-user", "--uid", "0", "--gid", "0", "--unshare-pid", "--unshare-ipc"),
        *("--cap-add", "ALL", *mounts, "--die-with-parent", "--clearenv", "--setenv", "PATH", DEFAULT_PATH),
        *("--seccomp", str(filter_file), "--", "/bin/sh", "-c"),
    ]
