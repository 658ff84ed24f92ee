"""YAML files as trees, with the line and column of every value.

Scalars are read as OmegaConf reads them (`1e-6` is a number, a date is a string). Keys are plain text (`yes: 1` has the
key `yes`). Duplicate keys, unknown tags, a root that is not a mapping, and syntax errors are problems.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from nemo_gym.config.problems import Location, Problems
from nemo_gym.config.tree import DictTree, ListTree, Scalar, Tree, Value, build_dict
from nemo_gym.config.yaml_text import SafeLoader, YamlTooLargeError, require_bounded

_TAG = "tag:yaml.org,2002:"
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)"
)
_INT = re.compile(r"[-+]?(?:0b[0-1_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)")
_NARROWED = {f"{_TAG}float", f"{_TAG}int", f"{_TAG}timestamp"}


class _Loader(SafeLoader):
    """Resolves floats with an exponent and no dot, but no dates and no sexagesimal numbers."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML reads it from the class
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _NARROWED]
        for first, resolvers in SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(f"{_TAG}float", re.compile(rf"^(?:{_FLOAT.pattern})$"), list("-+0123456789."))
_Loader.add_implicit_resolver(f"{_TAG}int", re.compile(rf"^(?:{_INT.pattern})$"), list("-+0123456789"))


def read_yaml(path: Path, display: str, problems: Problems) -> DictTree | None:
    """Return the mapping in the file at `path`, or None and a problem. `display` is the name for messages."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        problems.add_gap(Location(display), f"The file cannot be read: {reason}.")
        return None
    start = Location(display, 1, 1)
    try:
        require_bounded(text)
        loader = _Loader(text)
        root = loader.get_single_node()
    except yaml.YAMLError as error:
        problems.add_gap(*_syntax_problem(error, display))
        return None
    if root is None:
        return DictTree({}, start)
    if not isinstance(root, yaml.MappingNode):
        problems.add_gap(
            start, "A configuration file must be a mapping of keys to values.", "Start with `key: value`."
        )
        return None
    tree = _Builder(loader, display, problems).build(root, start)
    assert isinstance(tree, DictTree)
    return tree


def _syntax_problem(error: yaml.YAMLError, display: str) -> tuple[Location, str, str]:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = Location(display, mark.line + 1, mark.column + 1) if mark else Location(display)
    if isinstance(error, YamlTooLargeError):
        return where, f"This YAML is refused: {error.problem}.", "Write fewer, or another form."
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
    return (
        where,
        f"This is not YAML: {what}.",
        "Check indentation, quotes and brackets here and on the line above.",
    )


class _Builder:
    """Converts PyYAML's trees to those of configurations."""

    def __init__(self, loader: _Loader, display: str, problems: Problems) -> None:
        self._loader = loader
        self._display = display
        self._problems = problems
        self._open: set[int] = set()

    def build(self, tree: yaml.Node, where: Location | None = None) -> Tree:
        where = where or self._where(tree)
        if isinstance(tree, yaml.ScalarNode):
            return Scalar(self._scalar(tree), where)
        if id(tree) in self._open:
            self._problems.add(
                where, "This alias refers to a value that contains it.", "Write the value out."
            )
            return Scalar(None, where)
        self._open.add(id(tree))
        try:
            if isinstance(tree, yaml.SequenceNode):
                return ListTree(tuple(self.build(item) for item in tree.value), where)
            return self._build_mapping(tree, where)
        finally:
            self._open.discard(id(tree))

    def _build_mapping(self, tree: yaml.Node, where: Location) -> DictTree:
        merged: dict[str, Tree] = {}
        written: dict[str, Tree] = {}
        for yaml_key, yaml_value in tree.value:
            key_where = self._where(yaml_key)
            if not isinstance(yaml_key, yaml.ScalarNode):
                self._problems.add(
                    key_where, "A key must be a single word or number, not a list or a mapping."
                )
            elif yaml_key.tag == f"{_TAG}merge":
                merged = {**merged, **self._merge(yaml_value)}
            elif yaml_key.value in written:
                first = written[yaml_key.value].where
                self._problems.add(
                    key_where,
                    f"The key {yaml_key.value!r} is given twice, first on line {first.line}.",
                    "Keep one of them.",
                )
            else:
                written[yaml_key.value] = self.build(yaml_value, key_where)
        return build_dict({**merged, **written}, where)

    def _merge(self, tree: yaml.Node) -> dict[str, Tree]:
        """Return the entries that `<<` merges in. The first of several mappings wins, as YAML defines."""
        sources = tree.value if isinstance(tree, yaml.SequenceNode) else [tree]
        entries: dict[str, Tree] = {}
        for source in sources:
            built = self.build(source)
            if isinstance(built, DictTree):
                entries = {**built.entries, **entries}
            else:
                self._problems.add(self._where(source), "`<<` must be a mapping or a list of mappings.")
        return entries

    def _scalar(self, tree: yaml.ScalarNode) -> Value:
        kind = tree.tag.removeprefix(_TAG)
        if kind in ("str", "value"):
            return str(tree.value)
        where = self._where(tree)
        if kind not in ("null", "bool", "int", "float"):
            shown = tree.tag.replace(_TAG, "!!")
            self._problems.add(where, f"The tag {shown} is not supported.", "Remove the tag.")
            return None
        try:
            value: Value = self._loader.construct_object(tree)
        except (ValueError, KeyError, IndexError):
            self._problems.add(where, f"{tree.value!r} does not have the type {kind} of its tag.")
            return None
        return value

    def _where(self, tree: yaml.Node) -> Location:
        return Location(self._display, tree.start_mark.line + 1, tree.start_mark.column + 1)
