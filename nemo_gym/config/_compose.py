"""Composition of files, `env.yaml`, an initial configuration and a command line into one tree.

Precedence, lowest first: the files of `config_paths`, `env.yaml`, the initial configuration, the command line. A file
overrides the files that it includes, and a later file of a list overrides an earlier one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_gym.config._directives import Directives
from nemo_gym.config._interpolation import paths_in, resolve_texts
from nemo_gym.config._overrides import Action, Override
from nemo_gym.config._yaml_files import read_yaml
from nemo_gym.config.problems import Location, Problems, did_you_mean
from nemo_gym.config.tree import (
    DictTree,
    ListTree,
    Scalar,
    Tree,
    dump_plain,
    find_at,
    merge,
    remove_at,
    set_at,
    split_path,
)
from nemo_gym.paths import display_path, find_file, search_roots

CONFIG_PATHS = "config_paths"
INITIAL = Location("initial configuration")


@dataclass(frozen=True, slots=True)
class ConfigSources:
    """The inputs of a configuration, beside the files that they include."""

    overrides: Sequence[Override]
    env: DictTree
    initial: Tree
    working_directory: Path

    @property
    def typed_keys(self) -> set[str]:
        """The top-level keys of the command line."""
        return {override.key.split(".")[0] for override in self.overrides}


@dataclass(frozen=True, slots=True)
class Composed:
    """The tree before directives and interpolations are resolved."""

    root: DictTree
    named: frozenset[str]
    """The dotted paths in the interpolations of `config_paths`."""


def compose(
    sources: ConfigSources, problems: Problems, known_keys: Collection[str], *, read_files: bool = True
) -> Composed:
    """Return the merged tree. `key=value` may set the `known_keys` at the top level even if no file has them.

    If `read_files` is false, `config_paths` is an ordinary key.
    """
    top = merge(sources.env, sources.initial)
    typed_keys = {str(split_path(override.key, top)[0]) for override in sources.overrides}
    top = _apply(sources.overrides, top, Problems(), typed_keys)
    files = _Files(sources.working_directory, dump_plain(top), problems)
    paths = find_at(top, (CONFIG_PATHS,))
    if paths is not None and read_files:
        files.include(paths, {})
    root: Tree = DictTree({}, Location("configuration"))
    for tree in (*files.loaded.values(), sources.env, sources.initial):
        root = merge(root, tree)
    root = _apply(sources.overrides, root, problems, known_keys)
    if read_files and CONFIG_PATHS in root.entries:
        given = root.entries[CONFIG_PATHS]
        loaded = ListTree(
            tuple(Scalar(str(path), given.where) for path in files.loaded), given.where, given.overridden
        )
        root = replace(root, entries={**root.entries, CONFIG_PATHS: loaded})
    return Composed(root, frozenset(files.named))


@dataclass
class _Files:
    """Reads every configuration file once, and included files before the file that includes them."""

    working_directory: Path
    scope: dict[str, Any]
    """Values for interpolations in a list of paths, beside the keys of the file that contains the list."""
    problems: Problems
    loaded: dict[Path, DictTree] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    _open: list[Path] = field(default_factory=list)

    def include(self, paths: Tree, own_keys: dict[str, Any]) -> None:
        for name, where in self._names(paths, own_keys):
            path = find_file(name, self.working_directory)
            if path is None:
                self.problems.add_gap(where, f"There is no file {name!r}.", self._remedy_for_missing(name))
            elif path.resolve() in self._open:
                self.problems.add_gap(
                    where, f"{name!r} includes itself.", "Remove it from one of the `config_paths`."
                )
            elif path.resolve() not in self.loaded:
                self._load(path.resolve(), display_path(path, self.working_directory))

    def _load(self, path: Path, display: str) -> None:
        tree = read_yaml(path, display, self.problems)
        if tree is None:
            return
        included = tree.entries.get(CONFIG_PATHS)
        tree = replace(
            tree, entries={key: entry for key, entry in tree.entries.items() if key != CONFIG_PATHS}
        )
        if included is not None:
            self._open.append(path)
            self.include(included, dump_plain(tree))
            self._open.pop()
        self.loaded[path] = tree

    def _names(self, paths: Tree, own_keys: dict[str, Any]) -> Iterable[tuple[str, Location]]:
        if isinstance(paths, Scalar) and paths.value is None:
            return []
        items = paths.items if isinstance(paths, ListTree) else ()
        texts = [
            (item.value, item.where)
            for item in items
            if isinstance(item, Scalar) and isinstance(item.value, str)
        ]
        if not isinstance(paths, ListTree) or len(texts) != len(items):
            verbs = self._suggest_verbs(paths.value) if isinstance(paths, Scalar) else None
            self.problems.add_gap(
                paths.where, f"`{CONFIG_PATHS}` must be a list of files.", verbs or "Write [a.yaml,b.yaml]."
            )
        self.named |= {name for text, _ in texts for name in paths_in(text)}
        return resolve_texts(texts, {**own_keys, **self.scope}, self.problems)

    def _suggest_verbs(self, name: object) -> str | None:
        from nemo_gym.config.components import suggest_verbs  # only for a wrong name

        return suggest_verbs(str(name), self.working_directory)

    def _remedy_for_missing(self, name: str) -> str:
        if (verbs := self._suggest_verbs(name)) is not None:
            return verbs
        places = map(str, search_roots(self.working_directory))
        looked = f"Looked in {' and '.join(places)}." if not Path(name).is_absolute() else ""
        neighbours = {
            str(Path(name).with_name(path.name))
            for folder in search_roots(self.working_directory)
            for path in (folder / name).parent.glob("*.y*ml")
        }
        return " ".join(part for part in (did_you_mean(name, neighbours), looked) if part)


def _apply(
    overrides: Sequence[Override], root: Tree, problems: Problems, known_keys: Collection[str]
) -> DictTree:
    """Apply the overrides of the command line in their order."""
    for override in overrides:
        assert isinstance(root, DictTree)
        path = split_path(override.key, root)
        if override.action is Action.DELETE:
            root = _delete(override, root, problems, known_keys)
            continue
        is_certain = override.action is not Action.REPLACE or path[0] in known_keys
        if not is_certain and not _check_exists(override, root, problems, known_keys):
            continue
        assert override.value is not None
        try:
            root = set_at(root, path, override.value)
        except IndexError:
            problems.add(
                override.where, f"The list in {override.key} has no such item.", "Items are counted from 0."
            )
    assert isinstance(root, DictTree)
    return root


def _delete(override: Override, root: DictTree, problems: Problems, known_keys: Collection[str]) -> Tree:
    path = split_path(override.key, root)
    found = find_at(root, path)
    if found is None:
        if Directives(root, Problems()).has(path):
            parent, _, name = override.key.rpartition(".")
            remedy = f"It is inherited. Write ++{parent}._delete_key={name}."
            problems.add_absence(override.where, f"{override.key} is not set in any file.", remedy)
        else:
            _check_exists(override, root, problems, known_keys)
        return root
    if override.value is not None and dump_plain(override.value) != dump_plain(found):
        problems.add(override.where, f"{override.key} does not have that value, so it is not deleted.")
        return root
    return remove_at(root, path)


def _find_option_keys(path: tuple[str | int, ...], root: DictTree) -> list[str]:
    """Return the keys of a server's options for the path of its block: `agent` is `agent.<kind>.<implementation>`.

    Another path is returned as it is.
    """
    keys, block = [str(part) for part in path], find_at(root, path)
    below = list[str]()
    while len(path) == 1 and len(below) < 2 and isinstance(block, DictTree) and len(block.entries) == 1:
        [(key, block)] = block.entries.items()
        below.append(key)
    return keys + below if len(below) == 2 else keys


def _check_exists(
    override: Override, root: DictTree, problems: Problems, known_keys: Collection[str]
) -> bool:
    """Return whether the key exists, inherited or not. A missing key is added to `problems`."""
    directives = Directives(root, Problems())
    path = split_path(override.key, root)
    if directives.has(path):
        return True
    known = len(path) - 1
    while known and not directives.has(path[:known]):
        known -= 1
    beside = directives.keys_at(path[:known]) | (set() if known else set(known_keys))
    near = did_you_mean(str(path[known]), beside)
    key = ".".join((*_find_option_keys(path[:known], root), *map(str, path[known:])))
    to_add = "" if override.action is Action.DELETE else f"To add it, write +{key}=..."
    remedy = " ".join(part for part in (near, to_add) if part)
    problems.add_absence(override.where, f"There is no key {override.key!r}.", remedy or None)
    return False
