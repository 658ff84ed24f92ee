"""A configuration as a tree of nodes, each with its location and the values that it overrides.

`merge` merges mappings key by key; every other node replaces the lower one. `_delete_key: "x, y"` in a mapping removes
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
    overridden: tuple[Node, ...] = ()
    """The values that it replaced, the nearest first."""


@dataclass(frozen=True, slots=True)
class ListNode:
    items: tuple[Node, ...]
    where: Location
    overridden: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Deletion:
    """A key that a mapping removes from the mappings that it is merged into."""

    where: Location
    satisfied: bool = False
    """True if a lower mapping has the key."""


@dataclass(frozen=True, slots=True)
class DictNode:
    entries: Mapping[str, Node]
    where: Location
    overridden: tuple[Node, ...] = ()
    deletions: Mapping[str, Deletion] = field(default_factory=dict)


Node: TypeAlias = Scalar | ListNode | DictNode


def dict_node(entries: Mapping[str, Node], where: Location) -> DictNode:
    """Return the mapping with `entries`, with its `_delete_key` (names in a string or a list) as deletions."""
    deleted = entries.get(DELETE_KEY)
    items = deleted.items if isinstance(deleted, ListNode) else (deleted,)
    if not all(isinstance(item, Scalar) and isinstance(item.value, str) for item in items):
        return DictNode(entries, where)
    names = [
        name.strip() for item in items if isinstance(item, Scalar) for name in str(item.value).split(",")
    ]
    return DictNode(
        {key: node for key, node in entries.items() if key != DELETE_KEY},
        where,
        deletions={name: Deletion(deleted.where) for name in names if name and deleted},
    )


def from_plain(value: Any, where: Location, problems: Problems) -> Node:
    """Return the node of a plain Python value. A value of an unsupported type is a problem."""
    if isinstance(value, Mapping):
        return dict_node({str(key): from_plain(item, where, problems) for key, item in value.items()}, where)
    if isinstance(value, list | tuple):
        return ListNode(tuple(from_plain(item, where, problems) for item in value), where)
    if isinstance(value, PurePath):
        return Scalar(str(value), where)
    if value is None or isinstance(value, str | int | float | bool):
        return Scalar(value, where)
    problems.add(where, f"A configuration cannot contain a {type(value).__name__}.", "Use a plain value.")
    return Scalar(None, where)


def to_plain(node: Node) -> Any:
    """Return `node` as dicts, lists and scalars."""
    if isinstance(node, DictNode):
        return {key: to_plain(entry) for key, entry in node.entries.items()}
    if isinstance(node, ListNode):
        return [to_plain(item) for item in node.items]
    return node.value


def merge(lower: Node, upper: Node) -> Node:
    """Return `lower` with `upper` merged into it. Values of `upper` take precedence."""
    if not isinstance(upper, DictNode):
        return replace(upper, overridden=(*upper.overridden, *overridden_by_another(lower)))
    if isinstance(lower, Scalar):
        lower = _directive_mapping(lower) or lower
    if not isinstance(lower, DictNode):
        return replace(upper, overridden=(*upper.overridden, *overridden_by_another(lower)))
    entries = {key: node for key, node in lower.entries.items() if key not in upper.deletions}
    for key, node in upper.entries.items():
        entries[key] = merge(entries[key], node) if key in entries else node
    deletions = dict(lower.deletions)
    for name, deletion in upper.deletions.items():
        deletions[name] = replace(deletion, satisfied=deletion.satisfied or name in lower.entries)
    return DictNode(entries, lower.where, lower.overridden, deletions)


def overridden_by_another(node: Node) -> tuple[Node, ...]:
    """Return the values that a replacement of `node` overrides: `node`, then the values that it overrode."""
    return (replace(node, overridden=()), *node.overridden)


def _directive_mapping(node: Scalar) -> DictNode | None:
    """Return `${inherit_from:a}` as `{_inherit_from: a}`, so that keys can be merged into it."""
    match = DIRECTIVE_TEXT.fullmatch(node.value) if isinstance(node.value, str) else None
    if match is None:
        return None
    source = Scalar(match[2].strip(), node.where)
    return DictNode({f"_{match[1]}": source}, node.where, node.overridden)


def child(node: Node, part: str | int) -> Node | None:
    if isinstance(node, DictNode):
        return node.entries.get(str(part))
    if isinstance(node, ListNode) and str(part).isdecimal() and int(part) < len(node.items):
        return node.items[int(part)]
    return None


def children_of(node: Node) -> list[tuple[str | int, Node]]:
    """Return the children of `node` with their keys or indices."""
    if isinstance(node, DictNode):
        return list(node.entries.items())
    return list(enumerate(node.items)) if isinstance(node, ListNode) else []


def node_at(node: Node, path: Path) -> Node | None:
    """Return the node at `path` below `node`, or None if there is none."""
    found: Node | None = node
    for part in path:
        found = child(found, part) if found is not None else None
    return found


def nearest_location(node: Node, path: Path) -> Location:
    """Return the location of the node at `path`, or of its nearest existing ancestor."""
    where = node.where
    for part in path:
        below = child(node, part)
        if below is None:
            break
        node, where = below, below.where
    return where


def set_at(node: Node | None, path: Path, value: Node) -> Node:
    """Return `node` with `value` merged in at `path`. Missing mappings are created, list items must exist."""
    if not path:
        return merge(node, value) if node is not None else value
    head, rest = path[0], path[1:]
    if isinstance(node, ListNode):
        below = child(node, head)
        if below is None:
            raise IndexError(head)
        items = list(node.items)
        items[int(head)] = set_at(below, rest, value)
        return replace(node, items=tuple(items))
    wrapped = dict_node({str(head): set_at(None, rest, value)}, value.where)
    if isinstance(node, DictNode) and str(head) in node.entries:
        return replace(
            node, entries={**node.entries, str(head): set_at(node.entries[str(head)], rest, value)}
        )
    return merge(node, wrapped) if node is not None else wrapped


def remove_at(root: DictNode, path: Path) -> DictNode:
    """Return `root` without the node at `path`. Raises `KeyError` if there is none."""
    removed = _without(root, path)
    assert isinstance(removed, DictNode)
    return removed


def _without(node: Node, path: Path) -> Node:
    head, rest = path[0], path[1:]
    below = child(node, head)
    if below is None:
        raise KeyError(head)
    kept = [_without(below, rest)] if rest else []
    if isinstance(node, ListNode):
        items = list(node.items)
        items[int(head) : int(head) + 1] = kept
        return replace(node, items=tuple(items))
    assert isinstance(node, DictNode)
    entries = {key: entry for key, entry in node.entries.items() if rest or key != head}
    return replace(node, entries={**entries, **{str(head): each for each in kept}})


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


def leaves(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield every scalar and every empty list or mapping, with its path."""
    children = children_of(node)
    if not children:
        yield path, node
    for part, below in children:
        yield from leaves(below, (*path, part))


def render_path(path: Path) -> str:
    """Return a path as text: `a.b[0].c`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def split_path(text: str, root: Node) -> Path:
    """Return the keys of a dotted path. A root key that contains dots is one key."""
    whole = [key for key in (root.entries if isinstance(root, DictNode) else ()) if "." in key]
    for key in sorted(whole, key=len, reverse=True):
        if text == key or text.startswith(f"{key}."):
            rest = text[len(key) + 1 :]
            return (key, *rest.split(".")) if rest else (key,)
    return tuple(text.split("."))
