"""The command line that starts a sandbox of the provider `rootless`.

It becomes the user of the store (for a gym that runs as root), makes a user namespace with this one user as its root,
mounts the layers of the image with the sandbox's own folder on top, and starts bubblewrap there: own processes,
network, IPC and host name, no way to a further user namespace, a filter of system calls.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_gym.isolation.memory import MemoryGroup
from nemo_gym.isolation.portable_python import PLACE, PortablePython
from nemo_gym.isolation.system_calls import root_call_filter
from nemo_gym.isolation.users import build_user_command
from nemo_gym.sandbox.providers.rootless import supervisor
from nemo_gym.sandbox.providers.rootless.store import ImageStore, SandboxPlaces

BRIDGE = PLACE / "bridge"
"""The place of the bridge folder in a sandbox."""
_MOUNT = (
    'cd -- "$1" && mount -t overlay overlay -o "lowerdir=$2,upperdir=$3/upper,workdir=$3/work,userxattr" "$3/merged" '
    '&& processes=$4 && shift 4 && exec prlimit --core=0 "--nproc=$processes" -- "$@"'
)
_PROGRAMS = ("bwrap", "unshare", "mount", "prlimit")
_CAPABILITIES = ("DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SYS_CHROOT", "FSETID")
RESOLVER = Path("/etc/resolv.conf")


@dataclass(frozen=True, slots=True)
class SandboxShape:
    """The parts of a sandbox that its command line names."""

    layers: Sequence[str]
    readable: Sequence[Path] = ()
    """Folders of this machine that it shows read-only, at their own paths."""
    has_network: bool = False
    """True for the network of this machine, which installations need."""


def find_missing() -> str | None:
    """Return the reason why no such sandbox can run on this machine; None if one can."""
    if platform.system() != "Linux":
        return f"it needs Linux, and this is {platform.system()}: use docker or podman there"
    wanted = (*_PROGRAMS, "setpriv") if os.geteuid() == 0 else _PROGRAMS
    missing = [program for program in wanted if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} is not installed (packages bubblewrap and util-linux)"
    if root_call_filter() is None:
        return f"the system calls of {platform.machine()} are unknown here"
    return None


def build_command(
    store: ImageStore,
    places: SandboxPlaces,
    shape: SandboxShape,
    processes: int,
    descriptors: tuple[int, int],
    group: MemoryGroup | None,
) -> list[str]:
    """Return the command for at most `processes`. It inherits `descriptors`: the listening socket and the filter."""
    python = PortablePython.of_the_gym(open_to_others=store.owner is not None)
    listening, filter_file = descriptors
    lower = ":".join(f"layers/{layer}" for layer in reversed(shape.layers))
    folder = str(places.folder.relative_to(store.folder))
    return [
        *(group.build_entry_command() if group is not None else ()),
        *(build_user_command(store.owner) if store.owner is not None else ()),
        *("unshare", "--user", "--map-root-user", "--mount", "--", "/bin/sh", "-c", _MOUNT, "mount"),
        *(str(store.folder), lower, folder, f"{processes}:{processes}"),
        *("bwrap", "--bind", str(places.folder / "merged"), "/"),
        *_build_namespaces(shape),
        *_build_mounts(python, places, shape),
        *("--seccomp", str(filter_file), "--clearenv", "--chdir", "/", "--"),
        *python.command(Path(supervisor.__file__).read_text(encoding="utf-8")),
        str(listening),
    ]


def build_tar_command(store: ImageStore, *options: str) -> list[str]:
    """Return a command of tar that keeps what an overlay needs, as the root of a namespace of the store's user."""
    return [
        *(build_user_command(store.owner) if store.owner is not None else ()),
        *("unshare", "--user", "--map-root-user", "--", "tar"),
        *("--xattrs", "--xattrs-include=user.*", "--numeric-owner", "--preserve-permissions", *options),
    ]


def _build_namespaces(shape: SandboxShape) -> list[str]:
    network = [] if shape.has_network else ["--unshare-net"]
    return [
        *("--unshare-user", "--uid", "0", "--gid", "0", "--unshare-pid", "--unshare-ipc"),
        *("--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox", *network, "--disable-userns"),
        *("--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *(part for name in _CAPABILITIES for part in ("--cap-add", f"CAP_{name}")),
    ]


def _build_mounts(python: PortablePython, places: SandboxPlaces, shape: SandboxShape) -> list[str]:
    shown = [*python.mounts, (places.bridge, BRIDGE), *((path, path) for path in shape.readable)]
    if shape.has_network and RESOLVER.is_file():
        shown.append((RESOLVER.resolve(), RESOLVER))
    mounts = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm"]
    for here, there in shown:
        mounts += ["--ro-bind", str(here), str(there)]
    return mounts
