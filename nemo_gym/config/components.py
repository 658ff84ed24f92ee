"""Names of environments, benchmarks, agents and models, and the configuration files that they mean.

A component is a folder below one of the roots (`nemo_gym.paths`), for instance `environments/wordle`,
`benchmarks/gpqa` or `resources_servers/mcqa`. Its name is the path below the folder of its kind. Its configuration is
`config.yaml`, `configs/<name>.yaml` or the only file in `configs/`; another one is named `<name>/<file>`.
A root hides the roots after it. The gym's own root and those of installed packages have no order: a name that two of
them have is ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nemo_gym import PARENT_DIR
from nemo_gym.config.problems import Problems, did_you_mean
from nemo_gym.names import SERVER_KINDS
from nemo_gym.paths import extra_roots, find_file, find_installed_roots

MANIFEST = "manifest.yaml"
"""A description of a component for catalogues, which is no configuration."""
TOMBSTONE = ".nemo_gym_tombstone"
"""The file in the folder of a renamed component that contains its new name."""
_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)*")


class ComponentKind(NamedTuple):
    """A kind of component."""

    noun: str
    folder: str
    option: str
    """The option of `gym` that selects one."""

    @property
    def title(self) -> str:
        """Its plural, as in `gym list <title>`."""
        return f"{self.noun.replace(' ', '-')}s"


ENVIRONMENT = ComponentKind("environment", "environments", "--environment")
BENCHMARK = ComponentKind("benchmark", "benchmarks", "--benchmark")
RESOURCES_SERVER = ComponentKind("resources server", "resources_servers", "--resources-server")
AGENT = ComponentKind("agent", "responses_api_agents", "--agent-type")
MODEL = ComponentKind("model", "responses_api_models", "--model-type")
KINDS = (ENVIRONMENT, BENCHMARK, RESOURCES_SERVER, AGENT, MODEL)


class Component(NamedTuple):
    """A named component."""

    kind: ComponentKind
    name: str
    folder: Path
    files: tuple[Path, ...]
    """Its configuration; several files if it has no principal one."""


class NamedFile(NamedTuple):
    """A configuration file, and the root in which its servers lie."""

    path: Path
    root: Path

    @property
    def text(self) -> str:
        """The path as `config_paths` contains it: relative to the root if it can be found there."""
        relative = self.path.relative_to(self.root) if self.path.is_relative_to(self.root) else self.path
        return str(relative if find_file(relative, Path.cwd()) == self.path else self.path)


def find_components(kind: ComponentKind, working_directory: Path) -> list[Component]:
    """Return all components of a kind, by name."""
    found: dict[str, Component] = {}
    for root in _rank_roots(working_directory):
        for folder in sorted((root / kind.folder).glob("*/")):
            files = tuple(_files_in(folder))
            if files and not (folder / TOMBSTONE).is_file():
                found.setdefault(folder.name, Component(kind, folder.name, folder, files))
    return [found[name] for name in sorted(found)]


def find_config(
    kind: ComponentKind, name: str, working_directory: Path, problems: Problems
) -> NamedFile | None:
    """Return the configuration of a component. An unknown or ambiguous name is a problem with the choices."""
    ordered = (working_directory, *extra_roots())
    in_order = [root for root in ordered if _find_in_root(root, kind, name)][:1]
    peers = [root for root in (PARENT_DIR, *find_installed_roots()) if _find_in_root(root, kind, name)]
    roots = in_order or list(dict.fromkeys(peers))
    if not roots:
        _report_unknown(kind, name, working_directory, problems)
        return None
    if len(roots) > 1:
        places = " and ".join(str(root) for root in roots)
        message = f"The {kind.noun} {name!r} is in {places}."
        problems.add(None, message, "Choose one with --search-dir FOLDER.")
        return None
    files = _find_in_root(roots[0], kind, name)
    if len(files) > 1:
        choices = ", ".join(f"{name}/{file.stem}" for file in files)
        problems.add(None, f"The {kind.noun} {name!r} has several configurations.", f"Choose one: {choices}.")
        return None
    return NamedFile(files[0], roots[0])


def has_component(kind: ComponentKind, name: str, working_directory: Path) -> bool:
    """Return whether a root has the component."""
    return any(_find_in_root(root, kind, name) for root in _rank_roots(working_directory))


def suggest_verbs(name: str, working_directory: Path) -> str | None:
    """Return how the environment or benchmark `name` is started by its name; None if there is none."""
    kinds = (ENVIRONMENT, BENCHMARK, RESOURCES_SERVER)
    if not any(has_component(kind, name, working_directory) for kind in kinds):
        return None
    return (
        f"{name!r} is a name, and no file: `gym env start {name}` starts its servers, and `gym eval run {name}` "
        "attempts its tasks."
    )


def find_config_at(text: str, problems: Problems) -> NamedFile | None:
    """Return the configuration at a path: a YAML file, or the folder of a component."""
    path = Path(text).expanduser().absolute()
    if path.is_file():
        return NamedFile(path, _find_root(path.parent))
    files = _files_in(path)
    if len(files) == 1:
        return NamedFile(files[0], _find_root(path))
    if files:
        choices = ", ".join(str(Path(text) / file.relative_to(path)) for file in files)
        problems.add(None, f"{text} has several configurations.", f"Choose one: {choices}.")
    elif path.is_dir():
        expected = f"It needs config.yaml or configs/{path.name}.yaml."
        problems.add(None, f"{text} has no configuration.", expected)
    else:
        problems.add(None, f"There is no file or folder {text!r}.")
    return None


def _find_root(folder: Path) -> Path:
    """Return the folder that contains the folder of the component's kind, or `folder` if there is none."""
    kinds = {*SERVER_KINDS, *(kind.folder for kind in KINDS)}
    return next((each.parent for each in (folder, *folder.parents) if each.name in kinds), folder)


def _rank_roots(working_directory: Path) -> Iterator[Path]:
    yield from (working_directory, *extra_roots(), PARENT_DIR)
    yield from find_installed_roots()


def _files_in(folder: Path) -> list[Path]:
    """Return the principal configuration of a component's folder, or all of its configurations."""
    principal = (folder / "config.yaml", folder / "configs" / f"{folder.name}.yaml")
    found = next((file for file in principal if file.is_file()), None)
    if found is not None:
        return [found]
    others = [*folder.glob("configs/*.yaml"), *folder.glob("*.yaml")]
    return sorted(file for file in others if file.name != MANIFEST)


def _find_in_root(root: Path, kind: ComponentKind, name: str) -> list[Path]:
    """Return the configuration that `name` means in `root`; several files if it does not say which."""
    if not _NAME.fullmatch(name):
        return []
    base, (head, _, flavour) = root / kind.folder, name.partition("/")
    exact = (base / f"{name}.yaml", base / head / "configs" / f"{flavour}.yaml")
    files = _files_in(base / name)
    return files or [file for file in exact if file.is_file()][:1]


def _report_unknown(kind: ComponentKind, name: str, working_directory: Path, problems: Problems) -> None:
    for root in _rank_roots(working_directory):
        tombstone = root / kind.folder / name / TOMBSTONE
        if _NAME.fullmatch(name) and tombstone.is_file():
            renamed = tombstone.read_text(encoding="utf-8").strip()
            problems.add(None, f"The {kind.noun} {name!r} has another name.", f"It is {renamed!r}.")
            return
    known = [component.name for component in find_components(kind, working_directory)]
    near = did_you_mean(name, known)
    remedy = " ".join(part for part in (near, f"See: gym list {kind.title}") if part)
    problems.add(None, f"There is no {kind.noun} {name!r}.", remedy)
