"""The kinds of foreign environments. A kind is an entry here, a module in `host/kinds`, a lock, and a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from nemo_gym.config.problems import did_you_mean
from nemo_gym.failures import ConfigError

_NAME = re.compile(r"([a-z][a-z0-9_]*):(\S.*)", re.DOTALL)
_SCHEMES = ("http://", "https://")
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
    takes_url: bool = False
    """True if a name may be the URL of a server that runs already."""
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
    def is_remote(self) -> bool:
        """True if the environment is a server that runs already."""
        return self.kind.takes_url and self.name.startswith(_SCHEMES)

    @property
    def block(self) -> str:
        """The name of its server in a configuration."""
        name = self.name
        if self.is_remote:
            name = name.partition("://")[2]
        elif self.kind.takes_folder:
            name = Path(name).name
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
            name="ors",
            title="Open Reward Standard",
            package="openreward",
            example="ors:http://127.0.0.1:8080",
            loop="ours",
            pythons=("3.12", "3.13", "3.11"),
            max_steps=50,
            reward="sum",
            domain="agent",
            takes_folder=True,
            takes_url=True,
        ),
    )
}


def read_name(text: str) -> ForeignName | None:
    """Return the environment that `KIND:NAME` names; None for a text of another form. A folder becomes absolute.

    Raises `ConfigError` for an unknown kind, and for a URL that has more than an address.
    """
    match = _NAME.fullmatch(text)
    if match is None or match[2].startswith("//"):
        return None
    kind = read_kind(match[1])
    name = match[2]
    if kind.takes_url and name.startswith(_SCHEMES):
        name = check_url(name)
    elif kind.takes_folder:
        name = str(Path(name).expanduser().resolve())
    return ForeignName(kind, name)


def check_url(text: str) -> str:
    """Return a URL without a slash at its end. Raises `ConfigError` for one that is no plain address."""
    try:
        parts = urlsplit(text)
        is_plain = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:  # of the port
        is_plain = False
    if not is_plain or "?" in text or "#" in text or re.search(r"\s", text):
        raise ConfigError(
            "The URL of a server is http(s)://HOST:PORT, perhaps with a path; "
            "user names, passwords, queries and fragments have no place in it.",
            code="invalid_option",
        )
    return text.rstrip("/")


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
