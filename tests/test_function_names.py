"""Functions are verbs: few are named `x_of`, or begin with a participle or a preposition.

`build_window(…)` says that it builds; `window_of(…)` leaves open whether it builds, reads or finds one. Properties,
context managers and fixtures are nouns by convention, and stay.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST = 200
"""Conversions that are named `to_json` or `to_wire`, hooks, and names that other packages call."""

PREPOSITION = re.compile(
    r"about|above|across|after|against|along|among|around|as|at|before|behind|below|beside|between|beyond|"
    r"by|despite|during|except|for|from|in|inside|into|like|near|off|on|onto|out|outside|over|per|since|"
    r"through|to|toward|under|until|up|upon|via|with|within|without"
)
PARTICIPLE = re.compile(
    r"begun|bent|bound|bought|brought|built|caught|done|drawn|driven|felt|found|given|gone|grown|heard|"
    r"held|hidden|kept|known|laid|led|left|lent|lost|made|meant|met|paid|seen|sent|shown|spent|spoken|"
    r"stood|taken|taught|thought|thrown|told|torn|understood|won|worn|written|chosen|broken|frozen"
)
"""Irregular ones. `cut`, `put`, `read`, `run`, `set` and `split` are verbs too."""
VERB_IN_ED_OR_ING = re.compile(r"bring|embed|exceed|feed|need|ping|proceed|ring|seed|speed|string|succeed")
NOUNS_BY_CONVENTION = frozenset(
    {"property", "cached_property", "setter", "contextmanager", "asynccontextmanager", "fixture"}
)


def is_verb(name: str) -> bool:
    """Whether a name is neither `x_of`, nor begins with a participle or a preposition."""
    first, *others = name.strip("_").split("_")
    if "of" in (first, *others) or PREPOSITION.fullmatch(first) or PARTICIPLE.fullmatch(first):
        return False
    return not first.endswith(("ed", "ing")) or VERB_IN_ED_OR_ING.fullmatch(first) is not None


def may_be_a_noun(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the function is a property or the like, a class method `from_x`, a hook `on_x` or Python's own."""
    decorators = {ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in function.decorator_list}
    is_constructor = "classmethod" in decorators and function.name.startswith("from_")
    return is_constructor or function.name.startswith(("on_", "__")) or bool(decorators & NOUNS_BY_CONVENTION)


def other_names(path: Path) -> Iterator[str]:
    """Yield the functions of a file that should have a verb for a name."""
    elements = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    for function in (each for each in elements if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)):
        if not is_verb(function.name) and not may_be_a_noun(function):
            yield f"{path}:{function.lineno}: {function.name}"


def test_functions_are_verbs() -> None:
    found = [name for path in sorted((ROOT / "nemo_gym").rglob("*.py")) for name in other_names(path)]
    assert 0 < len(found) <= MOST, "\n".join(found)


@pytest.mark.parametrize(
    "name", ["window_of", "_of_kind", "checked", "missing_rows", "kept_rows", "by_task", "_without"]
)
def test_other_names_are_found(name: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"class C:\n    async def {name}(self): ...\n")
    assert list(other_names(module)) == [f"{module}:2: {name}"]


@pytest.mark.parametrize(
    "name", ["build_window", "is_part", "read_rows", "run_tests", "seed_session", "__init__", "on_stop"]
)
def test_verbs_are_not_found(name: str) -> None:
    assert is_verb(name) or name.startswith(("on_", "__"))


@pytest.mark.parametrize(
    "decorator", ["property", "contextmanager", "contextlib.asynccontextmanager", "pytest.fixture()"]
)
def test_nouns_by_convention_are_not_found(decorator: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"@{decorator}\ndef running(): ...\n")
    assert not list(other_names(module))


def test_only_a_class_method_is_a_constructor(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("class C:\n    @classmethod\n    def from_row(cls): ...\n\ndef from_row(): ...\n")
    assert list(other_names(module)) == [f"{module}:5: from_row"]
