"""Implementation folders (`resources_servers/<name>` etc.) in the working folder and beside the package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nemo_gym.config.problems import did_you_mean
from nemo_gym.failures import ConfigError
from nemo_gym.names import SERVER_KINDS, ServerKind
from nemo_gym.paths import search_roots

ENTRYPOINT = "app.py"


@dataclass(frozen=True, slots=True)
class Implementation:
    """A folder with a server's code."""

    kind: ServerKind
    name: str
    """The name of the folder."""
    folder: Path
    """The absolute path of the folder."""

    @property
    def root(self) -> Path:
        """The folder of all kinds, in which `import resources_servers.<name>` is looked up."""
        return self.folder.parent.parent

    @property
    def entrypoint(self) -> str:
        """`<kind>/<name>`, as in the arguments of commands."""
        return f"{self.kind}/{self.name}"

    @property
    def configs(self) -> list[Path]:
        """Its configuration files."""
        return sorted(self.folder.glob("configs/*.yaml"))

    @property
    def tests(self) -> Path:
        return self.folder / "tests"

    @property
    def has_tests(self) -> bool:
        return any(self.tests.rglob("test_*.py"))


def find_implementations(working_folder: Path, kind: ServerKind | None = None) -> list[Implementation]:
    """Return all implementations by kind and name. Those of the working folder hide those of the package."""
    found: dict[str, Implementation] = {}
    for root in search_roots(working_folder.resolve()):
        for each in _implementations_in(root):
            if kind in (None, each.kind):
                found.setdefault(each.entrypoint, each)
    return sorted(found.values(), key=lambda each: (SERVER_KINDS.index(each.kind), each.name))


def find_implementation(entrypoint: str, working_folder: Path) -> Implementation:
    """Return the implementation for `resources_servers/<name>`, or for a path to the folder or its `app.py`.

    The name alone is enough if only one implementation has it.
    Raises `ConfigError` with similar names.
    """
    given = Path(entrypoint)
    wanted = given.parent if given.name == ENTRYPOINT else given
    known = {each.entrypoint: each for each in find_implementations(working_folder)}
    found = _implementation_at((working_folder / wanted).resolve()) or known.get(wanted.as_posix())
    if found is not None:
        return found
    namesakes = [each for each in known.values() if each.name == wanted.name]
    if len(namesakes) == 1 and entrypoint == wanted.name:
        return namesakes[0]
    meant = " or ".join(repr(each.entrypoint) for each in namesakes)
    raise ConfigError(
        f"there is no implementation {entrypoint!r}",
        code="unknown_implementation",
        remedy=(f"Did you mean {meant}?" if meant else None)
        or did_you_mean(wanted.name, [each.name for each in known.values()])
        or "Write resources_servers/<name>. gym list shows all names.",
        param="entrypoint",
    )


def _implementations_in(root: Path) -> Iterator[Implementation]:
    for kind in SERVER_KINDS:
        for folder in (root / kind).glob("*/"):
            found = _implementation_at(folder.resolve())
            if found is not None:
                yield found


def _implementation_at(folder: Path) -> Implementation | None:
    kind = next((kind for kind in SERVER_KINDS if kind == folder.parent.name), None)
    if kind is None or not (folder / ENTRYPOINT).is_file():
        return None
    return Implementation(kind, folder.name, folder)
