"""The servers of a configuration, and incomplete server blocks.

A server is a top-level mapping with one kind (`resources_servers`, `responses_api_models`, `responses_api_agents` or
`environment_servers`).
The kind has one implementation folder, which has an `entrypoint`. An incomplete block is an error that names the
missing part, because a server that silently does not start is hard to find. A fragment, a block of options without an
`entrypoint`, is only a warning: other files inherit from it, or are laid over it. A reference to it is an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.config.problems import Location, Problem, Problems, did_you_mean
from nemo_gym.config.tree import DictTree, Scalar, Tree, find_at, remove_at
from nemo_gym.config.tree import Path as TreePath
from nemo_gym.names import AGENT_ALIAS, SERVER_KINDS, ServerKind
from nemo_gym.paths import candidates, search_roots

PLACEHOLDER_IMPLEMENTATION = "dummy_model"
"""The placeholder for a model in configurations without one (`NO_MODEL_GLOBAL_CONFIG_DICT`); it is never started."""
_KIND_CUTOFF = 0.75


@dataclass(frozen=True, slots=True)
class ServerInstance:
    """A server to start."""

    name: str
    kind: ServerKind
    implementation: str
    """The name of the implementation's folder."""
    directory: Path
    """The absolute path of that folder."""
    entrypoint: str
    """The file to run, in `directory`."""
    config: Mapping[str, Any] = field(repr=False)
    """The resolved innermost block, secrets included."""
    where: Location | None
    """The start of the block."""
    num_workers: int = 1

    @property
    def is_alias(self) -> bool:
        """True for a second name of an agent, which has no process."""
        return is_alias(self.kind, self.implementation)

    @property
    def path(self) -> tuple[str, str, str]:
        """The path of `config` in the configuration."""
        return (self.name, self.kind, self.implementation)


def is_alias(kind: str, implementation: str) -> bool:
    """Return whether a server is only a second name of an agent."""
    return kind == "environment_servers" and implementation == AGENT_ALIAS


def find_root(folder: Path) -> Path:
    """Return the root of an implementation's folder: the parent of `resources_servers/` or the like."""
    return next((each.parent for each in folder.parents if each.name in SERVER_KINDS), folder.parents[1])


def drop_placeholders(root: DictTree) -> DictTree:
    """Return `root` without the placeholders of models that also have a real implementation."""
    for name in root.entries:
        models = find_at(root, (name, "responses_api_models"))
        if (
            isinstance(models, DictTree)
            and len(models.entries) > 1
            and PLACEHOLDER_IMPLEMENTATION in models.entries
        ):
            root = remove_at(root, (name, "responses_api_models", PLACEHOLDER_IMPLEMENTATION))
    return root


class FoundServers(NamedTuple):
    """The servers of a configuration."""

    servers: tuple[ServerInstance, ...]
    blocks: Sequence[tuple[TreePath, Any]]
    """Their options, and the blocks of incomplete ones, with their paths: the fault of a block hides no other."""


def find_servers(
    root: DictTree,
    data: Mapping[str, Any],
    reserved: Iterable[str],
    working_directory: Path,
    problems: Problems,
) -> FoundServers:
    """Return the servers in `root`. An incomplete block is a problem, or a warning if the user allows it."""
    flaws_are_errors = data.get("error_on_almost_servers", True) is not False
    ignored = set(reserved)
    servers: list[ServerInstance] = []
    blocks: list[tuple[TreePath, Any]] = []
    for name, tree in root.entries.items():
        if name in ignored:
            continue
        found = _read_block(name, tree, data[name], working_directory)
        if isinstance(found, ServerInstance):
            servers.append(found)
            blocks.append((found.path, found.config))
        elif found is not None and (near := _suggest_server(name, tree, root)):
            problems.add(tree.where, f"There is no server {name!r}.", near)
        elif found is not None and flaws_are_errors and not is_fragment(tree):
            problems.add(found.where, found.message, found.remedy)
            blocks.append(((name,), data[name]))
        elif found is not None:
            problems.warn(f"{found.where}: {found.message} It is not started.")
    return FoundServers(tuple(servers), blocks)


def _suggest_server(name: str, tree: Tree, root: DictTree) -> str | None:
    """Return a hint at a similar server name if only an override has created this block."""
    others = {other for other, block in root.entries.items() if other != name and is_server_block(block)}
    return did_you_mean(name, others) if tree.where.text is not None else None


def is_server_block(tree: Tree) -> bool:
    """Return whether a block is a server or an incomplete one."""
    return isinstance(tree, DictTree) and (
        any(kind in tree.entries for kind in SERVER_KINDS) or bool(_suggest_kind(tree))
    )


def is_fragment(block: Tree) -> bool:
    """Return whether a block of a file has options of one implementation, but no `entrypoint`."""
    if not isinstance(block, DictTree) or block.where.text is not None or len(block.entries) != 1:
        return False
    [kind] = block.entries.values()
    implementations = list(kind.entries.values()) if isinstance(kind, DictTree) else []
    if len(implementations) != 1 or not isinstance(implementations[0], DictTree):
        return False
    options = implementations[0].entries
    return bool(options) and not difflib.get_close_matches("entrypoint", options, n=1)


def _read_block(
    name: str, block: Tree, data: Any, working_directory: Path
) -> ServerInstance | Problem | None:
    if not isinstance(block, DictTree):
        if not isinstance(data, Mapping) or set(SERVER_KINDS).isdisjoint(data):
            return None
        message = f"{name} is an interpolation of another server, and has no block of its own."
        return Problem(block.where, message, "To copy that server, write `_copy: <its name>`.")
    kinds = [kind for kind in SERVER_KINDS if kind in block.entries]
    if not kinds:
        return _misspelt_kind(name, block)
    if len(kinds) > 1:
        return Problem(
            block.where, f"{name} has {len(kinds)} kinds: {', '.join(kinds)}.", "A server has one kind."
        )
    kind = kinds[0]
    for key, tree in block.entries.items():
        if key != kind:
            return Problem(
                tree.where,
                f"{name}.{key} has no meaning beside {kind}.",
                f"Move it into {_join_option_keys(name, kind, block.entries[kind])}.",
            )
    return _read_kind(name, kind, block.entries[kind], data, working_directory)


def _join_option_keys(name: str, kind: ServerKind, tree: Tree) -> str:
    implementations = list(tree.entries) if isinstance(tree, DictTree) else []
    return ".".join([name, kind, *implementations] if len(implementations) == 1 else [name, kind])


def _read_kind(
    name: str, kind: ServerKind, tree: Tree, data: Any, working_directory: Path
) -> ServerInstance | Problem | None:
    implementations = tree.entries if isinstance(tree, DictTree) else {}
    names = [each for each in implementations if each != PLACEHOLDER_IMPLEMENTATION]
    if not names:
        is_placeholder = PLACEHOLDER_IMPLEMENTATION in implementations
        return None if is_placeholder else Problem(tree.where, f"{name}.{kind} has no implementation folder.")
    if len(names) > 1:
        return Problem(
            implementations[names[1]].where,
            f"{name} has {len(names)} implementations: {', '.join(names)}.",
            f"Keep one, or remove one with `_delete_key: {names[0]}`.",
        )
    return _read_implementation(name, kind, names[0], implementations[names[0]], data, working_directory)


def _read_implementation(
    name: str, kind: ServerKind, implementation: str, tree: Tree, data: Any, working_directory: Path
) -> ServerInstance | Problem:
    place = f"{name}.{kind}.{implementation}"
    if not isinstance(tree, DictTree):
        return Problem(tree.where, f"{place} is not a mapping.", "Add at least an `entrypoint`.")
    entrypoint = tree.entries.get("entrypoint")
    config = data[kind][implementation]
    if is_alias(kind, implementation):
        return ServerInstance(name, kind, implementation, Path(), "", config, tree.where)
    if entrypoint is None:
        near = difflib.get_close_matches("entrypoint", tree.entries, n=1)
        meant = f"Did you mean `entrypoint` by {near[0]!r}?" if near else "Write `entrypoint: app.py`."
        return Problem(tree.where, f"{place} has no `entrypoint`.", meant)
    if not isinstance(entrypoint, Scalar) or not isinstance(config["entrypoint"], str):
        return Problem(
            entrypoint.where, f"{place}.entrypoint is not the name of a file.", "Write `entrypoint: app.py`."
        )
    directory = _find_folder(kind, implementation, working_directory, tree.where)
    if isinstance(directory, Problem):
        return directory
    file = config["entrypoint"]
    if not (directory / file).is_file():
        files = {path.name for path in directory.glob("*.py")}
        remedy = (
            did_you_mean(file, files)
            or f"The folder contains {', '.join(sorted(files)) or 'no Python file'}."
        )
        return Problem(entrypoint.where, f"There is no {file} in {directory}.", remedy)
    workers = config.get("num_workers")
    count = workers if isinstance(workers, int) and workers > 0 else 1
    return ServerInstance(name, kind, implementation, directory, file, config, tree.where, count)


def _misspelt_kind(name: str, block: DictTree) -> Problem | None:
    near = _suggest_kind(block)
    if near is None:
        return None
    key, kind = near
    remedy = f"Did you mean {kind!r}?" if kind else f"A server's kind is one of {', '.join(SERVER_KINDS)}."
    return Problem(block.entries[key].where, f"{name}.{key} is not a kind of server.", remedy)


def _suggest_kind(block: DictTree) -> tuple[str, str | None] | None:
    """Return the key in place of a kind, and the kind that it resembles; None if the block is not a server."""
    for key, tree in block.entries.items():
        near = difflib.get_close_matches(key, SERVER_KINDS, n=1, cutoff=_KIND_CUTOFF)
        if near and isinstance(tree, DictTree):
            return key, near[0]
        inner = tree.entries.values() if isinstance(tree, DictTree) else ()
        if any(isinstance(below, DictTree) and "entrypoint" in below.entries for below in inner):
            return key, near[0] if near else None
    return None


def _find_folder(
    kind: ServerKind, implementation: str, working_directory: Path, where: Location
) -> Path | Problem:
    places = candidates(Path(kind) / implementation, working_directory)
    found = next((path for path in places if path.is_dir()), None)
    if found is not None:
        return found
    folders = [root / kind for root in search_roots(working_directory)]
    present = {path.name for folder in folders for path in folder.glob("*") if path.is_dir()}
    looked = f"Looked in {' and '.join(map(str, folders))}."
    remedy = " ".join(part for part in (did_you_mean(implementation, present), looked) if part)
    return Problem(where, f"There is no folder {kind}/{implementation}.", remedy)
