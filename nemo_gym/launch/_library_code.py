"""The code of the gym itself that decides rollouts, as one digest for each of its rooms.

It counts in a checkout, where users edit the gym or pull its changes. In an installed gym the version stands for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from nemo_gym.launch._file_digests import FileDigests
from nemo_gym.launch._source_files import find_source_files

# These make or judge the text of a rollout: what an agent and an engine are asked, how answers are read and converted,
# which tools and sandboxes an agent has, where foreign code runs, and the verdict with the fields of its row. Left out
# are those that carry bytes and start processes (`serving`, `transport`, `processes`, `launch`, `head`), those that
# read finished rows (`metrics`, `viewer`, `export`), and those of the collector (`rollouts`, `config`), which may run
# from another checkout on another machine: the rows, prompts and settings that it reads are parts of the identity.
ROOMS: Final = (
    "nemo_gym/agents",
    "nemo_gym/engines",
    "nemo_gym/episodes",
    "nemo_gym/isolation",
    "nemo_gym/json_objects",
    "nemo_gym/protocol",
    "nemo_gym/resources",
    "nemo_gym/responses",
    "nemo_gym/rows",
    "nemo_gym/sandbox",
    "nemo_gym/tokens",
    "nemo_gym/verify",
)
"""Packages, and modules without their ending: an added name that ends with `.py` would look like an edit of a run."""


def describe_library(folder: Path, digests: FileDigests) -> dict[str, Any]:
    """Return the rooms of the gym below `folder` as pairs of a name and a digest, and the folder."""
    rooms = [[name, digest] for name in ROOMS if (digest := _digest_room(folder, name, digests))]
    return {"folder": str(folder), "rooms": rooms}


def find_changed_rooms(told: Mapping[str, Any], digests: FileDigests) -> list[str]:
    """Return the rooms of a gym that differ from those of its start, which the code `told` has.

    A gym that is installed, or older, tells none.
    """
    library = told.get("library")
    if library is None:
        return []
    folder = Path(library["folder"])
    return [name for name, digest in library["rooms"] if _digest_room(folder, name, digests) != digest]


def _digest_room(folder: Path, name: str, digests: FileDigests) -> str | None:
    """Return the digest of the names and the contents of a room's Python files; None for a room without any."""
    files = [(path.relative_to(folder).as_posix(), digests.digest(path)) for path in _modules(folder / name)]
    return hashlib.sha256(repr(sorted(files)).encode()).hexdigest()[:16] if files else None


def _modules(room: Path) -> Iterator[Path]:
    if room.is_dir():
        yield from (path for path in find_source_files(room) if path.suffix == ".py")
    elif (module := room.with_suffix(".py")).is_file():
        yield module
