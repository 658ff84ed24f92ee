"""YAML texts of bounded depth and size.

PyYAML builds nested values by recursion, and nine lines of aliases can stand for billions of values. Both are refused
by the parser's events, which take the time of the text as it is written.
"""

from __future__ import annotations

from typing import Any

import yaml

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml: the same loader, ten times slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

SafeLoader = _Loader
MAX_DEPTH = 100
"""Levels of lists and mappings in each other."""
MAX_REPEATED = 100_000
"""Values that aliases repeat, together."""


class YamlTooLargeError(yaml.MarkedYAMLError):
    """A text that stands for a value that is too deep or too large."""


def load_yaml(text: str | bytes) -> Any:
    """Return the value of a YAML text. Raises `yaml.YAMLError`, also for a text that is too deep or too large."""
    require_bounded(text)
    return yaml.load(text, Loader=SafeLoader)


def require_bounded(text: str | bytes) -> None:
    """Raise `yaml.YAMLError`, with the line, for a text that is no YAML, too deep, or whose aliases repeat too much."""
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    count = repeated = 0
    for event in yaml.parse(text, Loader=SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            repeated += sizes.get(str(event.anchor), 1)
            if repeated > MAX_REPEATED:
                raise _refusal(event, f"aliases repeat more than {MAX_REPEATED} values")
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, count + repeated))
            count += 1
            if len(opened) > MAX_DEPTH:
                raise _refusal(event, f"there are more than {MAX_DEPTH} levels of lists and mappings")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                sizes[anchor] = count + repeated - before


def _refusal(event: yaml.Event, problem: str) -> YamlTooLargeError:
    return YamlTooLargeError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]
