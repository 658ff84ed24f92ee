"""The generated page of public names.

`python docs/public_names_page.py docs/public_names.md` updates it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from nemo_gym import PARENT_DIR
from nemo_gym.config.document import table_row

PACKAGE = PARENT_DIR / "nemo_gym"
FACADE = "The ecosystem's import path"
"""The beginning of the docstring of a module of the ecosystem."""

_INTRODUCTION = """\
# Public names

This page is made by `python docs/public_names_page.py docs/public_names.md`.

A module with `__all__` is meant for authors of environments, agents, verifiers and trainers, and its public names are those in
the list. Documentation, templates and the servers of the repository import nothing else, and a test holds them to it. Names
outside of these lists change without notice. `python -m pydoc nemo_gym.verify.answers` prints the signatures and docstrings of
a module.
"""
_ECOSYSTEM = """\
## The ecosystem's import paths
These modules re-export the names below for environments that were written for the reference gym. They hold no logic, and
nothing in the package imports them. [Compatibility](compatibility.md) tells how they are tried.
"""


def name_module(path: Path) -> str:
    """Return the import path of a file of the package."""
    parts = path.relative_to(PARENT_DIR).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def read_public_names(tree: ast.Module) -> list[str] | None:
    """Return the list `__all__` of a module; None without one."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(statement.value)
            return names
    return None


def is_facade(tree: ast.Module) -> bool:
    """Return whether a module is an import path of the ecosystem."""
    return (ast.get_docstring(tree) or "").startswith(FACADE)


def read_bound_names(tree: ast.Module) -> list[str]:
    """Return the public names that a module binds at its top, in alphabetical order."""
    found: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            found |= {each.asname for each in statement.names if each.asname}
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(statement.name)
        elif isinstance(statement, ast.Assign):
            found |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found.add(statement.target.id)
    return sorted(name for name in found if not name.startswith("_"))


def find_doors() -> Iterator[tuple[str, str, list[str]]]:
    """Yield the modules with `__all__`: import path, first sentence of the docstring, names."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = read_tree(path)
        if not is_facade(tree) and (names := read_public_names(tree)) is not None and is_for_users(path):
            yield name_module(path), read_sentence(tree), names


def is_for_users(path: Path) -> bool:
    """Return whether a module may be meant for users: it is not private, and no program of ours alone."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return all(not part.startswith("_") or part == "__init__" for part in parts)


def find_facades() -> Iterator[tuple[str, str, list[str]]]:
    """Yield the import paths of the ecosystem: import path, first sentence of the docstring, names."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if is_facade(tree := read_tree(path)):
            yield name_module(path), read_sentence(tree), read_bound_names(tree)


def read_sentence(tree: ast.Module) -> str:
    """Return the first paragraph of a module's docstring, in one line."""
    return " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())


def render_page() -> str:
    """Return the text of `docs/public_names.md`."""
    lines = [_INTRODUCTION, *_render_table(find_doors()), "", _ECOSYSTEM, *_render_table(find_facades())]
    return "\n".join(lines) + "\n"


def _render_table(modules: Iterator[tuple[str, str, list[str]]]) -> Iterator[str]:
    yield table_row("module", "is", "names")
    yield "|---|---|---|"
    for module, sentence, names in modules:
        yield table_row(f"`{module}`", sentence, ", ".join(f"`{name}`" for name in names))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")
