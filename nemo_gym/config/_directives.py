"""Resolution of `_inherit_from`, `_copy` and `_delete_key` within one configuration.

A mapping with a directive is a stack of layers: the layers of its source, then the mapping itself. The layers of a
path are computed on demand from the layers of its parent, so directives resolve in the order of their dependencies. A
path that depends on itself is a cycle. Sources of `_inherit_from` are removed after everything is resolved, sources of
`_copy` stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nemo_gym.config.problems import Location, Problems, did_you_mean
from nemo_gym.config.tree import (
    COPY_KEY,
    DELETE_KEY,
    DIRECTIVE_KEYS,
    DIRECTIVE_TEXT,
    INHERIT_FROM_KEY,
    DictTree,
    ListTree,
    Path,
    Scalar,
    Tree,
    find_at,
    leaves,
    overridden_by_another,
    remove_at,
    render_path,
    split_path,
)
from nemo_gym.config.yaml_text import MAX_DEPTH, MAX_REPEATED

Layers = tuple[Tree, ...]
"""The trees that are merged at a path, the lowest first. All but the last are mappings."""


class _CycleError(Exception):
    """A path depends on its own layers. The arguments are the paths of the cycle."""


class Directives:
    """Resolves the directives of one tree."""

    def __init__(self, root: DictTree, problems: Problems) -> None:
        self._root = root
        self._problems = problems
        self._layers: dict[Path, Layers] = {}
        self._pending: list[Path] = []
        self._most = MAX_REPEATED + sum(1 for _ in leaves(root))
        self._is_too_large = False
        self._expanded: dict[int, dict[Path, None]] = {}
        """The paths at which each directive, by the identity of its tree, was expanded."""
        self._endless: set[int] = set()
        """The directives that contain themselves, directly or through other directives."""
        self.dropped: dict[Path, Location] = {}
        """The sources of `_inherit_from`, with the location of the directive that uses each."""

    def resolve(self) -> DictTree:
        """Return the tree without directives. A directive that cannot be resolved is a problem, and left out."""
        built = self._build(())
        assert isinstance(built, DictTree)
        # Deepest first: a source inside another source must be removed before the outer one.
        for path in sorted(self.dropped, key=len, reverse=True):
            if find_at(built, path) is not None:
                built = remove_at(built, path)
        return built

    def has(self, path: Path) -> bool:
        """Return whether `path` exists."""
        return bool(self._layers_at(path))

    def keys_at(self, path: Path) -> set[str]:
        """Return the keys of the mapping at `path`."""
        return {
            key for layer in self._layers_at(path) if isinstance(layer, DictTree) for key in layer.entries
        }

    def _build(self, path: Path) -> Tree | None:
        layers = self._layers_at(path)
        if not layers:
            return None
        top = layers[-1]
        if isinstance(top, Scalar):
            return top
        return self._build_list(top, path) if isinstance(top, ListTree) else self._build_dict(layers, path)

    def _build_list(self, top: ListTree, path: Path) -> ListTree:
        items = [self._build((*path, index)) for index in range(len(top.items))]
        return replace(top, items=tuple(item for item in items if item is not None))

    def _build_dict(self, layers: Layers, path: Path) -> DictTree:
        keys = dict.fromkeys(
            key
            for layer in layers
            if isinstance(layer, DictTree)
            for key in layer.entries
            if key not in DIRECTIVE_KEYS
        )
        # Before what is below, so that a directive which contains itself is named by its own path.
        for key in keys:
            self._layers_at((*path, key))
        built = {key: self._build((*path, key)) for key in keys}
        entries = {key: below for key, below in built.items() if below is not None}
        self._check_deletions(layers, path)
        top = layers[-1]
        assert isinstance(top, DictTree)
        return DictTree(entries, top.where, top.overridden)

    def _check_deletions(self, layers: Layers, path: Path) -> None:
        below: set[str] = set()
        for layer in layers:
            assert isinstance(layer, DictTree)
            for name, deletion in layer.deletions.items():
                if not deletion.satisfied and name not in below:
                    place = f" in {render_path(path)}" if path else ""
                    self._problems.add_absence(
                        deletion.where,
                        f"`{DELETE_KEY}`: there is no key {name!r}{place}.",
                        did_you_mean(name, below),
                    )
            below |= set(layer.entries)
            if DELETE_KEY in layer.entries:
                self._problems.add(layer.entries[DELETE_KEY].where, f'`{DELETE_KEY}` must be names: "x, y".')

    def _layers_at(self, path: Path) -> Layers:
        known = self._layers.get(path)
        if known is not None:
            return known
        if path in self._pending:
            raise _CycleError(*self._pending[self._pending.index(path) :], path)
        self._pending.append(path)
        try:
            found = self._expand(self._root, path) if not path else self._layers_below(path)
        finally:
            self._pending.pop()
        self._layers[path] = found
        return found

    def _layers_below(self, path: Path) -> Layers:
        key = path[-1]
        found: Layers = ()
        for parent in self._layers_at(path[:-1]):
            if isinstance(parent, DictTree):
                if key in parent.deletions:
                    found = ()
                if key in parent.entries:
                    found = _stack(found, self._expand(parent.entries[str(key)], path))
            elif isinstance(parent, ListTree) and str(key).isdecimal() and int(key) < len(parent.items):
                found = self._expand(parent.items[int(key)], path)
        return found

    def _expand(self, tree: Tree, path: Path) -> Layers:
        """Return the layers of the source of `tree`, then `tree` itself."""
        sources = list(_find_sources(tree))
        if not sources:
            return (tree,)
        if len(sources) > 1:
            self._problems.add(
                tree.where, f"{render_path(path)} has two sources.", "Keep either _inherit_from or _copy."
            )
        directive, text, where = sources[0]
        if self._is_endless(tree, path, where) or self._repeats_too_much(path, where):
            return _drop_directives(tree)
        if not isinstance(text, str):
            self._problems.add(where, f"`{directive}` must be the dotted path of another key.")
            return _drop_directives(tree)
        source = split_path(text, self._root)
        if directive == INHERIT_FROM_KEY:
            self.dropped.setdefault(source, where)
        try:
            below = self._layers_at(source)
        except _CycleError as cycle:
            chain = " -> ".join(render_path(path) for path in cycle.args)
            self._problems.add(
                where, f"`{directive}` is circular: {chain}.", "Remove one of these references."
            )
            return _drop_directives(tree)
        if not below:
            self._problems.add_absence(where, f"`{directive}`: there is no {text!r}.", self._nearest(source))
            return _drop_directives(tree)
        return self._merge_over_source(tree, below, text)

    def _is_endless(self, tree: Tree, path: Path, where: Location) -> bool:
        """Return whether the directive contains itself: it was expanded above `path`. That is a problem."""
        paths = self._expanded.setdefault(id(tree), {})
        if id(tree) not in self._endless and any(path[:depth] in paths for depth in range(len(path))):
            first = next(iter(paths))
            self._problems.add(where, f"{render_path(first)} contains itself.", "Take a part of it instead.")
            self._endless.add(id(tree))
        paths[path] = None
        return id(tree) in self._endless

    def _repeats_too_much(self, path: Path, where: Location) -> bool:
        """Return whether directives made too many values, or lead too deep. The first such directive is a problem."""
        if len(self._layers) <= self._most and len(self._pending) <= MAX_DEPTH:
            return self._is_too_large
        if not self._is_too_large:
            self._is_too_large = True
            self._problems.add(
                where,
                f"{render_path(path)} is refused: `{INHERIT_FROM_KEY}` and `{COPY_KEY}` repeat more than "
                f"{MAX_REPEATED} values, or follow each other more than {MAX_DEPTH} times.",
                "Repeat fewer values.",
            )
        return True

    def _merge_over_source(self, tree: Tree, below: Layers, text: str) -> Layers:
        own = _drop_directives(tree)
        if not own or isinstance(below[-1], DictTree):
            return (*below, *own)
        keys = [key for layer in own if isinstance(layer, DictTree) for key in layer.entries]
        if keys:
            self._problems.add(
                tree.where,
                f"{text!r} is not a mapping, so no keys can be merged into it: {', '.join(keys)}.",
                "Remove them, or inherit from a mapping.",
            )
        return below

    def _nearest(self, source: Path) -> str | None:
        parent = source[:-1]
        if not self.has(parent):
            return self._nearest(parent)
        return did_you_mean(str(source[-1]), self.keys_at(parent))


def _find_sources(tree: Tree) -> Iterator[tuple[str, object, Location]]:
    """Yield the directives of `tree`: the key, the value and its location."""
    if isinstance(tree, Scalar) and isinstance(tree.value, str):
        match = DIRECTIVE_TEXT.fullmatch(tree.value)
        if match is not None:
            yield f"_{match[1]}", match[2].strip(), tree.where
    elif isinstance(tree, DictTree):
        for directive in (INHERIT_FROM_KEY, COPY_KEY):
            source = tree.entries.get(directive)
            value = source.value if isinstance(source, Scalar) else source
            if source is not None and value is not None:  # null cancels the directive of an included file
                yield directive, value, source.where


def _drop_directives(tree: Tree) -> Layers:
    if not isinstance(tree, DictTree):
        return ()
    return (replace(tree, entries={k: v for k, v in tree.entries.items() if k not in DIRECTIVE_KEYS}),)


def _stack(below: Layers, above: Layers) -> Layers:
    """Stack `above` on `below`. If the lowest layer of `above` is no mapping, it replaces `below`."""
    if not below or not above:
        return above or below
    lowest = above[0]
    if isinstance(lowest, DictTree) and isinstance(below[-1], DictTree):
        return (*below, *above)
    overridden = tuple(tree for layer in reversed(below) for tree in overridden_by_another(layer))
    return (replace(lowest, overridden=(*lowest.overridden, *overridden)), *above[1:])
