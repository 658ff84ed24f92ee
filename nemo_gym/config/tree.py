"""A configuration as a tree of mappings, lists and scalars, each with its location and the values that it
overrides.

`merge` merges mappings key by key; every other value replaces the lower one. `_delete_key: "x, y"` in a mapping removes
those keys from every mapping that it is merged into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, TypeAlias

from nemo_gym.config.problems import Location, Problems

Value: TypeAlias = str | int | float | bool | None
Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indices, starting at the root."""

DELETE_KEY = "_delete_key"
INHERIT_FROM_KEY = "_inherit_from"
COPY_KEY = "_copy"
DIRECTIVE_KEYS = (INHERIT_FROM_KEY, COPY_KEY)
DIRECTIVE_TEXT = re.compile(r"\$\{(inherit_from|copy):([^{}]*)\}")
"""The string forms, `${inherit_from:a.b}` and `${copy:a.b}`; only whole strings are directives."""


@dataclass(frozen=True, slots=True)
class Scalar:
    value: Value
    where: Location
    overridden: tuple[Tree, ...] = ()
    """The values that it replaced, the nearest first."""


@dataclass(frozen=True, slots=True)
class ListTree:
    items: tuple[Tree, ...]
    where: Location
    overridden: tuple[Tree, ...] = ()


@dataclass(frozen=True, slots=True)
class Deletion:
    """A key that a mapping removes from the mappings that it is merged into."""

    where: Location
    satisfied: bool = False
    """True if a lower mapping has the key."""


@dataclass(frozen=True, slots=True)
class DictTree:
    entries: Mapping[str, Tree]
    where: Location
    overridden: tuple[Tree, ...] = ()
    deletions: Mapping[str, Deletion] = field(default_factory=dict)


Tree: TypeAlias = Scalar | ListTree | DictTree


def build_dict(entries: Mapping[str, Tree], where: Location) -> DictTree:
    """Return the mapping with `entries`, with its `_delete_key` (names in a string or a list) as deletions."""
    deleted = entries.get(DELETE_KEY)
    items = deleted.items if isinstance(deleted, ListTree) else (deleted,)
    if not all(isinstance(item, Scalar) and isinstance(item.value, str) for item in items):
        return DictTree(entries, where)
    names = [
        name.strip() for item in items if isinstance(item, Scalar) for name in str(item.value).split(",")
    ]
    return DictTree(
        {key: tree for key, tree in entries.items() if key != DELETE_KEY},
        where,
        deletions={name: Deletion(deleted.where) for name in names if name and deleted},
    )


def build_tree(value: Any, where: Location, problems: Problems) -> Tree:
    """Return the tree of a plain Python value. A value of an unsupported type is a problem."""
    if isinstance(value, Mapping):
        return build_dict({str(key): build_tree(item, where, problems) for key, item in value.items()}, where)
    if isinstance(value, list | tuple):
        return ListTree(tuple(build_tree(item, where, problems) for item in value), where)
    if isinstance(value, PurePath):
        return Scalar(str(value), where)
    if value is None or isinstance(value, str | int | float | bool):
        return Scalar(value, where)
    problems.add(where, f"A configuration cannot contain a {type(value).__name__}.", "Use a plain value.")
    return Scalar(None, where)


def dump_plain(tree: Tree) -> Any:
    """Return `tree` as dicts, lists and scalars."""
    if isinstance(tree, DictTree):
        return {key: dump_plain(entry) for key, entry in tree.entries.items()}
    if isinstance(tree, ListTree):
        return [dump_plain(item) for item in tree.items]
    return tree.value


def merge(lower: Tree, upper: Tree) -> Tree:
    """Return `lower` with `upper` merged into it. Values of `upper` take precedence."""
    if not isinstance(upper, DictTree):
        return replace(upper, overridden=(*upper.overridden, *overridden_by_another(lower)))
    if isinstance(lower, Scalar):
        lower = _directive_mapping(lower) or lower
    if not isinstance(lower, DictTree):
        return replace(upper, overridden=(*upper.overridden, *overridden_by_another(lower)))
    entries = {key: tree for key, tree in lower.entries.items() if key not in upper.deletions}
    for key, tree in upper.entries.items():
        entries[key] = merge(entries[key], tree) if key in entries else tree
    deletions = dict(lower.deletions)
    for name, deletion in upper.deletions.items():
        deletions[name] = replace(deletion, satisfied=deletion.satisfied or name in lower.entries)
    return DictTree(entries, lower.where, lower.overridden, deletions)


def overridden_by_another(tree: Tree) -> tuple[Tree, ...]:
    """Return the values that a replacement of `tree` overrides: `tree`, then the values that it overrode."""
    return (replace(tree, overridden=()), *tree.overridden)


def _directive_mapping(tree: Scalar) -> DictTree | None:
    """Return `${inherit_from:a}` as `{_inherit_from: a}`, so that keys can be merged into it."""
    match = DIRECTIVE_TEXT.fullmatch(tree.value) if isinstance(tree.value, str) else None
    if match is None:
        return None
    source = Scalar(match[2].strip(), tree.where)
    return DictTree({f"_{match[1]}": source}, tree.where, tree.overridden)


def child(tree: Tree, part: str | int) -> Tree | None:
    if isinstance(tree, DictTree):
        return tree.entries.get(str(part))
    if isinstance(tree, ListTree) and str(part).isdecimal() and int(part) < len(tree.items):
        return tree.items[int(part)]
    return None


def list_children(tree: Tree) -> list[tuple[str | int, Tree]]:
    """Return the children of `tree` with their keys or indices."""
    if isinstance(tree, DictTree):
        return list(tree.entries.items())
    return list(enumerate(tree.items)) if isinstance(tree, ListTree) else []


def find_at(tree: Tree, path: Path) -> Tree | None:
    """Return the value at `path` below `tree`, or None if there is none."""
    found: Tree | None = tree
    for part in path:
        found = child(found, part) if found is not None else None
    return found


def nearest_location(tree: Tree, path: Path) -> Location:
    """Return the location of the value at `path`, or of its nearest existing ancestor."""
    where = tree.where
    for part in path:
        below = child(tree, part)
        if below is None:
            break
        tree, where = below, below.where
    return where


def set_at(tree: Tree | None, path: Path, value: Tree) -> Tree:
    """Return `tree` with `value` merged in at `path`. Missing mappings are created, list items must exist."""
    if not path:
        return merge(tree, value) if tree is not None else value
    head, rest = path[0], path[1:]
    if isinstance(tree, ListTree):
        below = child(tree, head)
        if below is None:
            raise IndexError(head)
        items = list(tree.items)
        items[int(head)] = set_at(below, rest, value)
        return replace(tree, items=tuple(items))
    wrapped = build_dict({str(head): set_at(None, rest, value)}, value.where)
    if isinstance(tree, DictTree) and str(head) in tree.entries:
        return replace(
            tree, entries={**tree.entries, str(head): set_at(tree.entries[str(head)], rest, value)}
        )
    return merge(tree, wrapped) if tree is not None else wrapped


def remove_at(root: DictTree, path: Path) -> DictTree:
    """Return `root` without the value at `path`. Raises `KeyError` if there is none."""
    removed = _remove(root, path)
    assert isinstance(removed, DictTree)
    return removed


def _remove(tree: Tree, path: Path) -> Tree:
    head, rest = path[0], path[1:]
    below = child(tree, head)
    if below is None:
        raise KeyError(head)
    kept = [_remove(below, rest)] if rest else []
    if isinstance(tree, ListTree):
        items = list(tree.items)
        items[int(head) : int(head) + 1] = kept
        return replace(tree, items=tuple(items))
    assert isinstance(tree, DictTree)
    entries = {key: entry for key, entry in tree.entries.items() if rest or key != head}
    return replace(tree, entries={**entries, **{str(head): each for each in kept}})


def value_at(data: Any, path: Path) -> Any:
    """Return the value at `path` in plain data. Raises `KeyError` if there is none."""
    for part in path:
        if isinstance(data, Mapping) and part in data:
            data = data[part]
        elif isinstance(data, list) and str(part).isdecimal() and int(part) < len(data):
            data = data[int(part)]
        else:
            raise KeyError(part)
    return data


def leaves(tree: Tree, path: Path = ()) -> Iterator[tuple[Path, Tree]]:
    """Yield every scalar and every empty list or mapping, with its path."""
    children = list_children(tree)
    if not children:
        yield path, tree
    for part, below in children:
        yield from leaves(below, (*path, part))


def render_path(path: Path) -> str:
    """Return a path as text: `a.b[0].c`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def split_path(text: str, root: Tree) -> Path:
    """Return the keys of a dotted path. A root key that contains dots is one key."""
    whole = [key for key in (root.entries if isinstance(root, DictTree) else ()) if "." in key]
    for key in sorted(whole, key=len, reverse=True):
        if text == key or text.startswith(f"{key}."):
            rest = text[len(key) + 1 :]
            return (key, *rest.split(".")) if rest else (key,)
    return tuple(text.split("."))
