"""Interpolations (`${...}`) and mandatory values (`???`), as OmegaConf defines them, with one problem per failed value.

OmegaConf is imported only for other interpolations than a key that is the whole value, as in `model: ${policy_name}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemo_gym.config._evaluation import EvaluationError, InterpolatedValues, TooLargeError
from nemo_gym.config.problems import Location, Problems, did_you_mean
from nemo_gym.config.secrets import is_secret_name, list_leaves
from nemo_gym.config.tree import DictTree, Path, Scalar, Tree, dump_plain, find_at, leaves, render_path

MISSING = "???"
_TEXT = "interpolated text"
_MARK = "${"
_OPTIONS = {
    "policy_base_url": "--url http://localhost:8000/v1",
    "policy_model_name": "--model Qwen/Qwen3-8B",
    "policy_api_key": "--model-api-key env:NAME",
}
"""Examples of the options of `gym` that set a key which many configurations leave open."""
_REFERENCE = re.compile(
    r"\$\{\s*(?:oc\.(?:select|dict\.keys|dict\.values|deprecated)\s*:\s*)?(?P<path>[^${}:,\s][^${}:,]*)[},]"
)
_WHOLE = re.compile(r"\$\{(?P<path>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)\}", re.ASCII)
_SHORT = 256
"""Characters of a value that interpolations repeat without a count of what they make together."""
_NOT_FOUND = object()
_MAX_DEPTH = 50
"""Brackets that are open at once in an interpolation. The parser recurses at each."""
_MAX_LENGTH = 32 << 10
"""Characters of the interpolations of one value. The parser takes a time that grows with their square."""
_BRACKET = re.compile(r"\\.|\$\{|[\[\]{}]", re.DOTALL)
"""A bracket of an interpolation, or an escaped character, which is none."""
_SHORTER = "Write the inner values as keys of their own, and refer to these."
_ENVIRONMENT = re.compile(r"\$\{\s*oc\.env\s*:\s*(?P<name>\w+)")


def report_missing(root: DictTree, problems: Problems) -> None:
    """Add every `???` to the problems."""
    for path, tree in leaves(root):
        if isinstance(tree, Scalar) and tree.value == MISSING:
            typed = ".".join(map(str, path))
            problems.add_absence(
                tree.where,
                f"{render_path(path)} is required: its value is {MISSING}.",
                f"Write +{typed}=<value>, or set it in env.yaml or in a file that includes this one.",
            )


def resolve(root: DictTree, problems: Problems, *, only: set[str] | None = None) -> dict[str, Any]:
    """Return the plain data of `root` with all interpolations replaced. A failed one is a problem, and its value None.

    With `only`, interpolations below other top-level keys are kept as text.
    """
    data: dict[str, Any] = dump_plain(root)
    interpolated = {path: tree for path, tree in leaves(root) if _is_interpolated(tree)}
    if not interpolated:
        return data
    for path, tree in list(interpolated.items()):
        value = _find_whole(str(dump_plain(tree)), data) if only is None or path[0] in only else _NOT_FOUND
        if value is _NOT_FOUND and _is_malformed(path, tree, problems):
            value = None  # OmegaConf would reject the whole configuration for it
        if value is not _NOT_FOUND:
            del interpolated[path]
            _put(data, path, value)
    if not interpolated:
        return data
    resolver = _Resolver(data, {path: tree.where for path, tree in interpolated.items()}, problems)
    wanted = [path for path in interpolated if only is None or path[0] in only]
    for path in wanted:
        _put(data, path, resolver.value_at(path))
    resolver.report_unknown(root)
    return data


def resolve_texts(
    texts: Iterable[tuple[str, Location]], scope: Mapping[str, Any], problems: Problems
) -> Iterator[tuple[str, Location]]:
    """Yield `texts` with keys of `scope` for interpolations. A failed one is a problem, and its text is left out."""
    for text, where in texts:
        if (excess := _find_excess(text)) is not None:
            problems.add_gap(where, f"A text is refused: {excess}.", _SHORTER)
            continue
        if _MARK in text:
            from omegaconf.errors import OmegaConfBaseException

            data = {**scope, _TEXT: text}
            paths = [
                leaf.path for leaf in list_leaves(data) if isinstance(leaf.value, str) and _MARK in leaf.value
            ]
            try:
                text = str(InterpolatedValues(data, paths).value_at((_TEXT,)))
            except (OmegaConfBaseException, EvaluationError) as error:
                problems.add_gap(
                    where, f"{text!r} cannot be resolved: {_reason(error)}.", "Set the key that it refers to."
                )
                continue
        yield text, where


def _find_excess(text: str) -> str | None:
    """Return in what respect the interpolations of a text are too much for the parser; None if they are not."""
    depth = start = length = 0
    for match in _BRACKET.finditer(text):
        bracket = match[0]
        if bracket == _MARK or (depth and bracket in "[{"):
            start = start if depth else match.start()
            depth += 1
            if depth > _MAX_DEPTH:
                return f"its interpolations are nested more than {_MAX_DEPTH} deep"
        elif depth and bracket in "]}":
            depth -= 1
            length += 0 if depth else match.end() - start
    length += len(text) - start if depth else 0
    return f"its interpolations are longer than {_MAX_LENGTH >> 10} KiB" if length > _MAX_LENGTH else None


def _find_whole(text: str, data: Any) -> Any:
    """Return the short scalar of the key that is all of `text`; `_NOT_FOUND` for any other text or value."""
    match = _WHOLE.fullmatch(text)
    if match is None:
        return _NOT_FOUND
    for part in match["path"].split("."):
        data = data.get(part, _NOT_FOUND) if isinstance(data, dict) else _NOT_FOUND
    if isinstance(data, str):
        return _NOT_FOUND if _MARK in data or data == MISSING or len(data) > _SHORT else data
    return data if data is None or isinstance(data, bool | int | float) else _NOT_FOUND


def _is_malformed(path: Path, tree: Tree, problems: Problems) -> bool:
    from omegaconf import OmegaConf
    from omegaconf.errors import GrammarParseError

    if (excess := _find_excess(str(dump_plain(tree)))) is not None:
        problems.add(tree.where, f"{render_path(path)} is refused: {excess}.", _SHORTER)
        return True
    try:
        OmegaConf.create({"text": dump_plain(tree)})
    except GrammarParseError as error:
        is_secret = any(is_secret_name(str(part)) for part in path)
        problems.add(
            tree.where,
            f"{render_path(path)} contains a malformed `${{...}}`{'' if is_secret else f': {_reason(error)}'}.",
            r"To write `${` as text, put a backslash before it: `\${`.",
        )
        return True
    return False


class _Resolver:
    """Reads interpolated values of a configuration."""

    def __init__(self, data: Any, places: Mapping[Path, Location], problems: Problems) -> None:
        """`places`: those of the interpolated values of `data`."""
        self._evaluation = InterpolatedValues(data, places)
        self._places = places
        self._problems = problems
        self._unknown: dict[str, list[tuple[Path, Location]]] = {}
        """Keys that interpolations refer to and that are not defined, with the places of these interpolations."""
        self._is_too_large = False

    def value_at(self, path: Path) -> Any:
        """Return a value; None, and a problem, for one that cannot be evaluated."""
        from omegaconf.errors import (
            InterpolationKeyError,
            InterpolationToMissingValueError,
            MissingMandatoryValue,
            OmegaConfBaseException,
        )

        if self._is_too_large:
            return None
        try:
            return self._evaluation.value_at(path)
        except (InterpolationToMissingValueError, MissingMandatoryValue):
            return None  # it refers to a ???, which is reported at its own location
        except InterpolationKeyError as error:
            match = re.search(r"Interpolation key '([^']*)' not found", str(error))
            self._unknown.setdefault(match[1] if match else render_path(path), []).append(
                (path, self._places[path])
            )
        except TooLargeError as error:
            self._is_too_large = True
            self._problems.add(
                self._places[error.path],
                f"{render_path(error.path)} is refused: {error}.",
                "Refer to fewer or shorter values.",
            )
        except (OmegaConfBaseException, EvaluationError) as error:
            self._report(error, path, self._places[path])
        return None

    def _report(self, error: Exception, path: Path, where: Location) -> None:
        variable = re.search(r"Environment variable '([^']*)' not found", str(error))
        if variable is None:
            self._problems.add(where, f"{render_path(path)} cannot be resolved: {_reason(error)}.")
            return
        self._problems.add(
            where,
            f"{render_path(path)} needs the environment variable {variable[1]}, which is not set.",
            f"Set it, or write a default: ${{oc.env:{variable[1]},default}}.",
        )

    def report_unknown(self, root: DictTree) -> None:
        """Add one problem for each unknown key, at the first interpolation that refers to it."""
        known = {render_path(path[: depth + 1]) for path, _ in leaves(root) for depth in range(len(path))}
        for key, ((path, where), *others) in self._unknown.items():
            more = f" (and in {len(others)} more)" if others else ""
            place = f"{render_path(path)} refers to"
            if key in _OPTIONS:
                message = f"{key} is not set; {place} it{more}."
                give = f"Write {_OPTIONS[key]} (gym) or +{key}=<value>, or set it in env.yaml."
            else:
                near = did_you_mean(key, known)
                message = f"{place} `${{{key}}}`{more}, which does not exist."
                give = f"Write +{key}=<value> on the command line, or set it in env.yaml or in a file."
                give = f"{near} {give}" if near else give
            self._problems.add_absence(where, message, give)


def references(root: DictTree) -> dict[Path, set[str]]:
    """Return the absolute dotted paths that each interpolated leaf refers to."""
    return {
        path: set(paths_in(str(dump_plain(tree)), path))
        for path, tree in leaves(root)
        if _is_interpolated(tree)
    }


def secret_paths(root: DictTree) -> set[Path]:
    """Return the leaves that are secrets by their key, or that are interpolated from such a leaf, also indirectly."""
    found: set[Path] = {leaf.path for leaf in list_leaves(dump_plain(root)) if leaf.is_secret}
    named = references(root)
    found |= {path for path in named if _names_secret_variable(find_at(root, path))}
    while True:
        secrets = {render_path(path) for path in found}
        more = {path for path, keys in named.items() if path not in found and not keys.isdisjoint(secrets)}
        if not more:
            return found
        found |= more


def paths_in(text: str, path: Path = ()) -> Iterator[str]:
    """Yield the dotted paths in the interpolations of a text at `path`."""
    for match in _REFERENCE.finditer(text):
        written = match["path"].rstrip()
        named = written.lstrip(".")
        levels = len(written) - len(named)
        above = render_path(path[: len(path) - levels]) if levels else ""
        yield f"{above}.{named}" if above else named


def _names_secret_variable(tree: Tree | None) -> bool:
    text = tree.value if isinstance(tree, Scalar) else None
    return isinstance(text, str) and any(
        is_secret_name(match["name"]) for match in _ENVIRONMENT.finditer(text)
    )


def _is_interpolated(tree: Tree) -> bool:
    return isinstance(tree, Scalar) and isinstance(tree.value, str) and _MARK in tree.value


def _put(data: Any, path: Path, value: Any) -> None:
    for part in path[:-1]:
        data = data[part]
    data[path[-1]] = value


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
