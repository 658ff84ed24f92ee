"""References from one server to another: `{type: responses_api_models, name: policy_model}`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemo_gym.config.problems import Location, Problems, did_you_mean
from nemo_gym.config.servers import is_fragment, is_server_block
from nemo_gym.config.tree import DictTree, Path, nearest_location, render_path
from nemo_gym.names import SERVER_KINDS


def check_references(
    blocks: Iterable[tuple[Path, Any]], root: DictTree, taken_over: Mapping[str, Location], problems: Problems
) -> None:
    """Check that every reference names an existing server of the given type.

    `blocks` are those of servers, with their paths. `taken_over` are the top-level blocks that `_inherit_from` removed.
    """
    checker = _Checker(root, taken_over, problems)
    for place, options in blocks:
        for path, block in _mappings(options, place):
            checker.check(path, block)


_POLICY = "policy_model"
_EXAMPLES = {
    "responses_api_models": "by `gym … --url http://localhost:8000/v1 --model <name>`, or the file "
    "responses_api_models/vllm_model/configs/vllm_model.yaml"
}


class _Checker:
    def __init__(self, root: DictTree, taken_over: Mapping[str, Location], problems: Problems) -> None:
        self._root = root
        self._taken_over = taken_over
        self._problems = problems
        self._kinds = {name: kind for name, tree in root.entries.items() if (kind := _find_kind(tree))}

    def check(self, path: Path, block: Mapping[str, Any]) -> None:
        kind = block.get("type")
        if not isinstance(kind, str):
            return
        if kind not in SERVER_KINDS:
            near = "name" in block and difflib.get_close_matches(kind, SERVER_KINDS, n=1, cutoff=0.8)
            if near:
                where = nearest_location(self._root, (*path, "type"))
                self._problems.add(
                    where, f"{render_path(path)}: there is no type {kind!r}.", f"Did you mean {near[0]!r}?"
                )
            return
        where = nearest_location(self._root, (*path, "name"))
        name = block.get("name")
        if not isinstance(name, str) or not name:
            self._problems.add_absence(where, f"{render_path(path)} refers to a server without its name.")
        elif name not in self._kinds:
            self._report_unknown(path, where, kind, name)
        elif is_fragment(self._root.entries[name]):
            self._problems.add(
                where,
                f"{render_path(path)}: the server {name!r} has no `entrypoint`.",
                f"Write `entrypoint: app.py` at {self._root.entries[name].where}.",
            )
        elif self._kinds[name] != kind:
            self._problems.add(
                where,
                f"{render_path(path)}: {name} belongs to {self._kinds[name]}, not to {kind}.",
                self._names(kind),
            )

    def _report_unknown(self, path: Path, where: Location, kind: str, name: str) -> None:
        taken = self._taken_over.get(name)
        tree = self._root.entries.get(name)
        if tree is not None and is_server_block(tree):
            return  # an incomplete server, which is reported as such
        if taken is not None:
            remedy = f"`_inherit_from` at {taken} removed it. Write `_copy` there to keep it."
        elif tree is not None:
            remedy = f"The configuration has a key {name}, but it is not a server."
        else:
            known = [*self._list_kind(kind), *self._list_policy(kind, name)]
            remedy = did_you_mean(name, known) or self._names(kind)
        self._problems.add_absence(where, f"{render_path(path)}: there is no server {name!r}.", remedy)

    def _list_kind(self, kind: str) -> list[str]:
        return sorted(name for name, other in self._kinds.items() if other == kind)

    def _list_policy(self, kind: str, name: str) -> list[str]:
        """Return the name of the policy's server, which is added where a reference has it and the URL is given."""
        has_url = "policy_base_url" in self._root.entries
        return [_POLICY] if kind == "responses_api_models" and has_url and name != _POLICY else []

    def _names(self, kind: str) -> str:
        names = self._list_kind(kind)
        if names:
            return f"Known names: {', '.join(names)}."
        example = _EXAMPLES.get(kind)
        return f"The configuration has no {kind}. Add one{f': {example}' if example else ''}."


def _find_kind(tree: object) -> str | None:
    entries = tree.entries if isinstance(tree, DictTree) else {}
    return next((kind for kind in SERVER_KINDS if kind in entries), None)


def _mappings(value: Any, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield every mapping in `value`, at any depth."""
    if isinstance(value, Mapping):
        yield path, value
        for key, below in value.items():
            yield from _mappings(below, (*path, str(key)))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _mappings(below, (*path, index))
