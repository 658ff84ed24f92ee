"""The kinds of foreign environments. A kind is an entry here, a module in `host/kinds`, a lock, and a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from nemo_gym.config.problems import did_you_mean
from nemo_gym.failures import ConfigError

_NAME = re.compile(r"([a-z][a-z0-9_]*):(\S.*)", re.DOTALL)
_FILE = re.compile(r"([^@]*\.py)(@\w+)?")
_SLUG = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class ForeignKind:
    """One ecosystem."""

    name: str
    title: str
    package: str
    """Its main distribution, which the lock pins."""
    example: str
    loop: Literal["ours", "theirs"]
    """`ours`: `gymnasium_agent` plays. `theirs`: the environment calls the model, behind the gateway."""
    pythons: tuple[str, ...]
    """Versions of Python that its packages run on, the best one first."""
    max_steps: int
    """Model calls of an attempt, unless the command line says otherwise."""
    reward: Literal["sum", "last"]
    domain: str
    takes_folder: bool = False
    """True if a name is the folder of an environment."""
    takes_file: bool = False
    """True if a name may be `FILE.py` or `FILE.py@TASK`."""
    tasks: int = 100
    """Rows of an environment without an end."""

    @property
    def lock(self) -> Path:
        """The requirements of its environments, with hashes."""
        return Path(__file__).with_name("locks") / f"{self.name}.txt"


class ForeignName(NamedTuple):
    """The name of a foreign environment."""

    kind: ForeignKind
    name: str

    @property
    def file(self) -> Path | None:
        """The file of the environment, if its name is one."""
        match = _FILE.fullmatch(self.name) if self.kind.takes_file else None
        return None if match is None else Path(match[1])

    @property
    def block(self) -> str:
        """The name of its server in a configuration."""
        if self.file is not None:
            task = self.name.rpartition(".py")[2].removeprefix("@")
            name = "_".join(dict.fromkeys(part for part in (self.file.stem, task) if part))
        else:
            name = Path(self.name).name if self.kind.takes_folder else self.name
        return _SLUG.sub("_", f"{self.kind.name}_{name}").strip("_").lower()

    def __str__(self) -> str:
        return f"{self.kind.name}:{self.name}"


KINDS: Mapping[str, ForeignKind] = {
    kind.name: kind
    for kind in (
        ForeignKind(
            name="textarena",
            title="TextArena",
            package="textarena",
            example="textarena:Mastermind-v0",
            loop="ours",
            pythons=("3.12", "3.13", "3.11"),
            max_steps=100,
            reward="sum",
            domain="games",
        ),
        ForeignKind(
            name="aviary",
            title="aviary",
            package="fhaviary",
            example="aviary:dummy",
            loop="ours",
            pythons=("3.12", "3.13", "3.11"),
            max_steps=50,
            reward="sum",
            domain="agent",
        ),
        ForeignKind(
            name="openenv",
            title="OpenEnv",
            package="openenv",
            example="openenv:my_env",
            loop="ours",
            pythons=("3.12", "3.13", "3.11"),
            max_steps=50,
            reward="sum",
            domain="other",
            takes_folder=True,
        ),
        ForeignKind(
            name="inspect",
            title="Inspect",
            package="inspect-ai",
            example="inspect:inspect_evals/mind2web_sc",
            loop="theirs",
            pythons=("3.12", "3.13", "3.11"),
            max_steps=50,
            reward="last",
            domain="other",
            takes_file=True,
        ),
    )
}


def read_name(text: str) -> ForeignName | None:
    """Return the environment that `KIND:NAME` names; None for a text of another form. A path becomes absolute.

    Raises `ConfigError` for an unknown kind.
    """
    match = _NAME.fullmatch(text)
    if match is None or match[2].startswith("//"):
        return None
    named = ForeignName(read_kind(match[1]), match[2])
    if named.kind.takes_folder or named.file is not None:
        return named._replace(name=str(Path(named.name).expanduser().resolve()))
    return named


def read_kind(name: str) -> ForeignKind:
    """Return a kind by its name. Raises `ConfigError` with the kinds that there are."""
    kind = KINDS.get(name)
    if kind is None:
        near = did_you_mean(name, KINDS)
        raise ConfigError(
            f"There is no kind of environments {name!r}.",
            code="unknown_kind",
            remedy=" ".join(part for part in (near, f"Kinds are {', '.join(KINDS)}.") if part),
        )
    return kind
