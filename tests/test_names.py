"""Public class names are unique in the package, and modules at the ecosystem's import paths only re-export."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from docs.public_names_page import is_facade
from tests.house_counts import PACKAGE, find_public_classes, parse_file

CONTENT_MODULES = frozenset(
    {
        "__init__",
        "__main__",
        "clock",
        "discovery_files",
        "failures",
        "json_objects",
        "names",
        "paths",
        "tables",
        "tls",
    }
)
"""The modules directly under `nemo_gym/` that hold definitions. Every other one is an import path."""


def test_no_public_class_name_is_defined_twice() -> None:
    twice = {name: places for name, places in find_public_classes().items() if len(places) > 1}
    assert not twice, f"rename one of each: {twice}"


IMPORT_PATHS = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if is_facade(parse_file(path)) or (path.parent == PACKAGE and path.stem not in CONTENT_MODULES)
)


def is_reexport(statement: ast.stmt) -> bool:
    """Whether the statement is an import, the docstring, or an assignment of a plain name or of `__all__`."""
    match statement:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Assign(value=value) | ast.AnnAssign(value=value):
            return isinstance(value, ast.Name | ast.Attribute)
    return False


@pytest.mark.parametrize("path", IMPORT_PATHS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_at_an_import_path_only_reexports(path: Path) -> None:
    logic = [f"line {statement.lineno}" for statement in parse_file(path).body if not is_reexport(statement)]
    assert not logic


@pytest.mark.parametrize(
    "code", ["def f(): ...", "class C: ...", "if True: import os", "x = f()", "X = 1", "for i in (): ..."]
)
def test_a_definition_is_no_reexport(code: str) -> None:
    assert not any(map(is_reexport, ast.parse(code).body))
