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
_FILE = re.compile(r"([^@]*\.py)(@\w+)?")
_SCHEMES = ("http://", "https://")
_SLUG = re.compile(r"\W+")


NameForm = Literal["name", "folder", "file", "url"]


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
    named_by: frozenset[NameForm] = frozenset({"name"})
    """The forms of its names: that of an installed environment, a folder, `FILE.py` or `FILE.py@TASK`, or the URL of a
    server that runs already."""
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
    def form(self) -> NameForm:
        forms = self.kind.named_by
        if "url" in forms and self.name.startswith(_SCHEMES):
            return "url"
        if "file" in forms and _FILE.fullmatch(self.name):
            return "file"
        if "folder" in forms and ("name" not in forms or self.name.startswith("/")):
            return "folder"
        return "name"

    @property
    def is_remote(self) -> bool:
        """True if the environment is a server that runs already."""
        return self.form == "url"

    @property
    def folder(self) -> Path | None:
        """The folder of the environment, if its name is one."""
        return Path(self.name) if self.form == "folder" else None

    @property
    def file(self) -> Path | None:
        """The file of the environment, if its name is one."""
        match = _FILE.fullmatch(self.name) if self.form == "file" else None
        return None if match is None else Path(match[1])

    @property
    def block(self) -> str:
        """The name of its server in a configuration."""
        name = self.name
        if self.is_remote:
            name = name.partition("://")[2]
        elif self.file is not None:
            task = name.rpartition(".py")[2].removeprefix("@")
            name = "_".join(dict.fromkeys(part for part in (self.file.stem, task) if part))
        elif self.folder is not None:
            name = self.folder.name
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
            named_by=frozenset({"folder"}),
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
            named_by=frozenset({"folder", "url"}),
        ),
        ForeignKind(
            name="verifiers",
            title="verifiers",
            package="verifiers",
            example="verifiers:./my_taskset",
            loop="theirs",
            pythons=("3.12", "3.13", "3.11"),
            max_steps=50,
            reward="sum",
            domain="other",
            named_by=frozenset({"name", "folder"}),
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
            named_by=frozenset({"name", "file"}),
        ),
    )
}


def read_name(text: str) -> ForeignName | None:
    """Return the environment that `KIND:NAME` names; None for a text of another form. A path becomes absolute.

    Where a kind has both names and folders, it is a folder if it is written as a path, or if there is one of that name.
    Raises `ConfigError` for an unknown kind, and for a URL that has more than an address.
    """
    match = _NAME.fullmatch(text)
    if match is None or match[2].startswith("//"):
        return None
    named = ForeignName(read_kind(match[1]), match[2])
    if named.is_remote:
        return named._replace(name=check_url(named.name))
    written = Path(named.name).expanduser()
    is_folder = "folder" in named.kind.named_by and (
        "/" in named.name or named.name.startswith((".", "~")) or written.is_dir()
    )
    return named._replace(name=str(written.resolve())) if named.form != "name" or is_folder else named


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
