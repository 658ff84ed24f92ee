"""A server's `requirements.txt`, and its check against the running interpreter.

A line that names nemo-gym itself is always satisfied: the server runs in this environment, or in one that links these
packages. Such a line is `-e nemo-gym[dev] @ ../../`, or `-e ../../`, the project of the server. Its extras count,
except `dev`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_gym import PARENT_DIR
from nemo_gym.launch.errors import LaunchError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

OWN_NAME = "nemo-gym"
_IGNORED_OWN_EXTRAS = frozenset({"dev"})
_COMMENT = re.compile(r"(^|\s+)#.*$")
_OWN_LINE = re.compile(r"^nemo[-_.]gym\s*(?:\[(?P<extras>[^\]]*)\])?\s*(?:$|[@=<>!~;,])", re.IGNORECASE)
_EDITABLE = re.compile(r"^(-e|--editable)(\s+|=)")
_INCLUDE = re.compile(r"^(-r|--requirement)(\s+|=)")


@dataclass(frozen=True, slots=True)
class Requirements:
    """A requirements file with its includes, without the lines that name nemo-gym."""

    packages: tuple[str, ...] = ()
    """Requirements such as `name>=1` (PEP 508)."""
    places: tuple[str, ...] = ()
    """URLs, paths and editable installs, which have no name to look up and never count as installed."""
    options: tuple[str, ...] = ()
    """Lines for the installer (`--extra-index-url ...`, `-c ...`)."""
    own_extras: tuple[str, ...] = ()
    """Extras of nemo-gym that the file requires."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines for an installer."""
        return (*self.options, *self.packages, *self.places)


def read_requirements(path: Path) -> Requirements:
    """Read `path` and its includes. Raises `LaunchError` naming a missing include."""
    packages, places, options, own_extras = [], [], [], []
    for folder, line in _logical_lines(path):
        target = _EDITABLE.sub("", line)
        own = _OWN_LINE.match(target)
        if own:
            own_extras += [extra.strip() for extra in (own["extras"] or "").split(",") if extra.strip()]
        elif _is_path(target):
            if (folder / target).resolve() not in (PARENT_DIR, folder.resolve().parent.parent):
                prefix = "-e " if target != line else ""
                places.append(f"{prefix}{(folder / target).resolve()}")
        elif line.startswith("-") and target == line:
            options.append(line)
        elif target != line or "://" in line.split(" @ ")[0]:
            places.append(line)
        else:
            packages.append(line)
    extras = tuple(sorted(set(own_extras) - _IGNORED_OWN_EXTRAS))
    return Requirements(tuple(packages), tuple(places), tuple(options), extras)


def find_unsatisfied(requirements: Requirements) -> list[str]:
    """The requirements that the running interpreter does not meet, each with the installed version."""
    if not requirements.packages and not requirements.own_extras:
        return list(requirements.places)
    from packaging.requirements import InvalidRequirement, Requirement

    own = [f"{OWN_NAME}[{','.join(requirements.own_extras)}]"] if requirements.own_extras else []
    problems = []
    for line in (*requirements.packages, *own):
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            raise LaunchError(
                f"`{line}` is not a valid requirement: {error}",
                code="bad_requirement",
                remedy="Write it as `name>=1.2`; see PEP 508.",
            ) from error
        problems += _unmet(requirement, seen=set())
    return [*problems, *requirements.places]


def own_requirements(extras: Sequence[str]) -> list[str]:
    """The dependencies of nemo-gym itself with `extras`, as lines for an installer."""
    from packaging.requirements import Requirement

    try:
        declared = metadata.requires(OWN_NAME) or []
    except metadata.PackageNotFoundError as error:
        raise LaunchError(
            "nemo-gym is not installed, so its dependencies are unknown",
            code="not_installed",
            remedy="Install it: `pip install -e .` in its folder.",
        ) from error
    chosen = [line for line in declared if _applies(Requirement(line), ("", *extras))]
    return [line.split(";")[0].strip() for line in chosen]


def _logical_lines(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the lines of `path` and its includes, each with its folder, without comments and blank lines."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise LaunchError(f"{path} does not exist", code="requirements_missing") from error
    for raw in text.replace("\\\n", " ").splitlines():
        line = _COMMENT.sub("", raw).strip()
        if _INCLUDE.match(line):
            yield from _logical_lines(path.parent / _INCLUDE.sub("", line))
        elif line:
            yield path.parent, line


def _is_path(target: str) -> bool:
    return target.startswith((".", "/", "~"))


def _applies(requirement: Requirement, extras: Collection[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def _unmet(requirement: Requirement, seen: set[str]) -> list[str]:
    """The unmet parts of `requirement` and its extras; `seen` breaks cycles."""
    if not _applies(requirement, ("",)) or str(requirement) in seen:
        return []
    seen.add(str(requirement))
    try:
        installed = metadata.distribution(requirement.name)
    except metadata.PackageNotFoundError:
        return [f"{requirement} (not installed)"]
    if not requirement.specifier.contains(installed.version, prereleases=True):
        return [f"{requirement} ({installed.version} is installed)"]
    if requirement.url is not None and requirement.url != _origin(installed):
        return [f"{requirement} (installed from elsewhere)"]
    return _unmet_extras(requirement, installed, seen)


def _unmet_extras(requirement: Requirement, installed: metadata.Distribution, seen: set[str]) -> list[str]:
    from packaging.requirements import Requirement as Parsed

    problems = []
    for line in installed.requires or ():
        needed = Parsed(line)
        if needed.marker is not None and _applies(needed, requirement.extras):
            needed.marker = None
            problems += _unmet(needed, seen)
    return problems


def _origin(installed: metadata.Distribution) -> str | None:
    """The URL that a package was installed from, in the form of a requirement (PEP 610)."""
    text = installed.read_text("direct_url.json")
    if text is None:
        return None
    origin = json.loads(text)
    version_control = origin.get("vcs_info")
    if version_control is None:
        return str(origin["url"])
    revision = version_control.get("requested_revision")
    return f"{version_control['vcs']}+{origin['url']}" + (f"@{revision}" if revision else "")
