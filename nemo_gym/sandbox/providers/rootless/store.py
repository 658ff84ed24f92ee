"""The images of the provider `rootless` on this machine's disk.

    layers/ID/         the files that one line of a Dockerfile added or changed
    images/ID.json     an image: its layers from the bottom, its variables, folder and user
    sandboxes/ID/      a running sandbox

An image is named by what it was made of, so that the same lines on the same files are applied once. All of it belongs
to one unprivileged user: the gym's or, for a gym that runs as root, a user id that no account has.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from nemo_gym.isolation.leftovers import PlaceLock, lock_place, remove_tree

STORE_USER: Final = 1 << 23
"""The user id of the images and sandboxes of a gym that runs as root. No real account has it."""
_ROOT_STORE = Path("/var/cache/nemo_gym/images")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Image:
    """A root file system, and the surroundings of its commands."""

    layers: tuple[str, ...]
    """Ids of its layers, from the bottom."""
    base: str
    """The system that it began with, such as `debian:bookworm`, and its version."""
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str | None = None
    entrypoint: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SandboxPlaces:
    """The folders of one sandbox."""

    folder: Path
    lock: PlaceLock | None
    """Shows other gyms that it is alive; None in a process that did not make it."""

    @property
    def upper(self) -> Path:
        """The files that its programs added or changed."""
        return self.folder / "upper"

    @property
    def bridge(self) -> Path:
        """A folder that its programs see read-only, for sockets of the gym."""
        return self.folder / "bridge"

    @property
    def control(self) -> Path:
        """The socket of its supervisor. Its programs do not see it."""
        return self.folder / "control" / "socket"

    def remove(self) -> None:
        """Delete it. Its processes have ended."""
        remove_tree(self.folder)
        if self.lock is not None:
            self.lock.release()


class ImageStore:
    """The images below a folder, by default one for all gyms of this user."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder.absolute() if folder is not None else _find_default_folder()
        self.owner = STORE_USER if os.geteuid() == 0 else None

    @property
    def is_empty(self) -> bool:
        """True if it has no layer, so that no image can be here or be made."""
        return not any((self.folder / "layers").glob("*"))

    def find(self, image: str) -> Image | None:
        """Return an image; None if it is not here, whole."""
        file = self._image_file(image)
        if not file.is_file():
            return None
        fields = json.loads(file.read_text(encoding="utf-8"))
        found = Image(
            **{**fields, "layers": tuple(fields["layers"]), "entrypoint": tuple(fields["entrypoint"])}
        )
        return found if all(self.layer(layer).is_dir() for layer in found.layers) else None

    def add(self, image: str, content: Image) -> None:
        """Store an image, whose layers are stored already."""
        self.prepare()
        file = self._image_file(image)
        new = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        new.write_text(json.dumps(asdict(content)), encoding="utf-8")
        new.chmod(0o644)
        new.replace(file)

    def layer(self, layer: str) -> Path:
        return self.folder / "layers" / layer

    def keep_layer(self, layer: str, folder: Path) -> None:
        """Make a folder of this store a layer. It stays as it was if another gym has made it meanwhile."""
        try:
            folder.rename(self.layer(layer))
        except OSError:
            if not self.layer(layer).is_dir():
                raise

    def own(self, path: Path) -> None:
        """Give a file or folder to the user of the store."""
        if self.owner is not None:
            os.chown(path, self.owner, self.owner, follow_symlinks=False)

    def prepare(self) -> None:
        """Make the folders. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("layers", "images", "sandboxes"):
            place = self.folder / name
            if not place.is_dir():
                place.mkdir(exist_ok=True)
                self.own(place)
        self.own(self.folder)

    def new_sandbox(self) -> SandboxPlaces:
        """Make the folders of a sandbox, and delete those of killed gyms."""
        self.prepare()
        parent = self.folder / "sandboxes"
        for folder in parent.iterdir():
            if (lock := lock_place(folder)) is not None:
                remove_tree(folder)
                lock.release()
        held = None
        while held is None:  # another gym may have taken the new folder for a dead one's
            folder = Path(tempfile.mkdtemp(dir=parent, prefix=""))
            held = lock_place(folder)
        places = SandboxPlaces(folder, held)
        for name in ("upper", "work", "merged", "bridge"):
            (folder / name).mkdir(mode=0o755)
            self.own(folder / name)
        places.control.parent.mkdir(mode=0o700)
        folder.chmod(0o711 if self.owner is not None else 0o700)
        return places

    def _image_file(self, image: str) -> Path:
        return self.folder / "images" / f"{image.replace('/', '_').replace(':', '_')}.json"


def _find_default_folder() -> Path:
    if os.geteuid() == 0:
        return _ROOT_STORE
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "nemo_gym" / "images"
