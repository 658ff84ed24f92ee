"""The origin of every value of a configuration, and the values that it overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_gym.config._interpolation import secret_paths
from nemo_gym.config.problems import Location, Problems
from nemo_gym.config.secret_forms import HIDDEN
from nemo_gym.config.secrets import add_copies, hide_secrets, is_hidden_kind, secret_values
from nemo_gym.config.tree import (
    DictTree,
    Path,
    Scalar,
    Tree,
    build_tree,
    dump_plain,
    find_at,
    leaves,
    render_path,
    value_at,
)

DEFAULT = Location("default")


@dataclass(frozen=True, slots=True)
class Overridden:
    """A value that was replaced by another one."""

    value: Any
    where: Location


@dataclass(frozen=True, slots=True)
class Explanation:
    """One value with its origin. Secrets are hidden."""

    path: str
    value: Any
    """The resolved value."""
    where: Location
    """The location of the value; `default` if it is not set anywhere."""
    written: str | None = None
    """The text with interpolations from which it was resolved."""
    overridden: tuple[Overridden, ...] = ()
    """The values that it replaced, the nearest first."""

    def __str__(self) -> str:
        written = f", as {self.written}" if self.written else ""
        overridden = "; ".join(f"overrides {each.value!r} ({each.where})" for each in self.overridden)
        return f"{self.where}{written}{f'; {overridden}' if overridden else ''}"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The resolved data of a configuration, and the tree from which it was made."""

    root: DictTree
    data: Mapping[str, Any]
    secret_paths: frozenset[Path]
    """Leaves of `root` that are secrets by name or are interpolated from a secret."""
    secrets: frozenset[str]
    """The secrets themselves."""

    @classmethod
    def from_config(cls, root: DictTree, data: Mapping[str, Any]) -> Provenance:
        paths = frozenset(secret_paths(root))
        resolved = {"secrets": [_value_or_none(data, path) for path in paths]}
        return cls(root, data, paths, add_copies(secret_values(data) | secret_values(resolved)))

    def hide_secrets(self) -> dict[str, Any]:
        """Return the data with every secret replaced by `****`."""
        data: dict[str, Any] = hide_secrets(self.data, self.secrets)
        for path in self.secret_paths:
            _hide_at(data, path)
        return data

    def explain(self, path: Path) -> Explanation:
        """Return the origin of the value at `path`. Raises `KeyError` if there is none."""
        return self._explanation(path, value_at(self.hide_secrets(), path))

    def explanations(self) -> Iterator[Explanation]:
        """Yield the origin of every leaf of the data, in order."""
        for path, leaf in leaves(build_tree(self.hide_secrets(), DEFAULT, Problems())):
            yield self._explanation(path, dump_plain(leaf))

    def _explanation(self, path: Path, value: Any) -> Explanation:
        tree, inherited = self._find_entry(path)
        if tree is None:
            return Explanation(render_path(path), value, DEFAULT)
        is_secret = value == HIDDEN or path in self.secret_paths
        overridden = (
            ()
            if inherited
            else tuple(Overridden(self._show(each, path, is_secret), each.where) for each in tree.overridden)
        )
        text = tree.value if isinstance(tree, Scalar) else None
        is_resolved = isinstance(text, str) and "${" in text
        written = str(hide_secrets(text, self.secrets)) if is_resolved else None
        return Explanation(render_path(path), value, tree.where, written, overridden)

    def _find_entry(self, path: Path) -> tuple[Tree | None, bool]:
        """Return the value at `path`, or the interpolation above it, and whether it is the latter."""
        tree = find_at(self.root, path)
        if tree is not None:
            return tree, False
        for depth in range(len(path) - 1, 0, -1):
            above = find_at(self.root, path[:depth])
            if isinstance(above, Scalar):
                return above, True
        return None, False

    def _show(self, tree: Tree, path: Path, is_secret: bool) -> Any:
        plain = dump_plain(tree)
        if is_secret and is_hidden_kind(plain):
            return HIDDEN
        name = str(next((part for part in reversed(path) if isinstance(part, str)), ""))
        return hide_secrets({name: plain}, self.secrets)[name]


def _value_or_none(data: Any, path: Path) -> Any:
    try:
        return value_at(data, path)
    except KeyError:
        return None  # a key of the command, which is not in the data


def _hide_at(data: Any, path: Path) -> None:
    if is_hidden_kind(_value_or_none(data, path)):
        value_at(data, path[:-1])[path[-1]] = HIDDEN
