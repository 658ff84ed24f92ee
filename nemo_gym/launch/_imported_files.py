"""The Python files that a file imports, directly or indirectly, found in its text without running it.

A statement in a function counts like one at the top, so that the result does not depend on what has run. Only the text
of import statements is parsed, which takes a twentieth of the time of whole files. A sentence of a docstring that reads
like an import may add a file of the user, and never leaves one out. Imports by name at run time
(`importlib.import_module`, `__import__`, entry points) are not seen.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_SPACE: Final = r"(?:[ \t\f]|\\\r?\n)"
_LIST: Final = r"(?:\((?:[^)#]|#[^\n]*)*\)|(?:[^\n\\]|\\\r?\n)*)"
_IMPORT: Final = re.compile(
    rf"(?:^|[;:]){_SPACE}*((?:from{_SPACE}*[\w. \t]+?{_SPACE}*\bimport\b{_SPACE}*{_LIST})|(?:import{_SPACE}+{_LIST}))",
    re.MULTILINE,
)


class Imported(NamedTuple):
    """A module that a file imports."""

    level: int
    """The dots before its name: 0 for an absolute import."""
    name: str
    """Its dotted name; empty for `from . import …`."""


def find_imported_files(
    sources: Iterable[Path], search_path: Sequence[Path], is_installed: Callable[[Path], bool]
) -> set[Path]:
    """Return the files that `sources` import and that lie below the `search_path`, at any depth of imports.

    Importing a module runs the `__init__.py` of every package above it, so these files count too. Files that are
    installed are left out, and what they import is not looked for.
    """
    bases = {folder: _list_names(folder) for folder in search_path}
    found: set[Path] = set()
    pending = list(sources)
    read = set(pending)
    while pending:
        importer = pending.pop()
        for imported in read_imports(importer):
            files = _find_module(imported, importer, bases, is_installed)
            found |= files
            pending += files - read
            read |= files
    return found


def read_imports(path: Path) -> list[Imported]:
    """Return the modules that a file imports, each once; none for a file that is gone."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError:  # its server reports it
        return []
    statements = (match[1] for match in _IMPORT.finditer(text))
    return list(dict.fromkeys(imported for statement in statements for imported in _parse_import(statement)))


def _parse_import(statement: str) -> Iterator[Imported]:
    """Yield what a statement imports. A name of `from a import b` may be a module of the package `a`."""
    try:
        elements = ast.parse(statement).body
    except (SyntaxError, ValueError):  # a sentence that begins with one of the two words
        return
    for element in elements:
        if isinstance(element, ast.Import):
            yield from (Imported(0, alias.name) for alias in element.names)
        elif isinstance(element, ast.ImportFrom):
            package = element.module or ""
            yield Imported(element.level, package)
            yield from (
                Imported(element.level, f"{package}.{alias.name}".lstrip(".")) for alias in element.names
            )


def _list_names(folder: Path) -> frozenset[str]:
    """Return the names that may be modules in a folder, so that most imports, of installed packages, cost no search."""
    try:
        return frozenset(name.removesuffix(".py") for name in os.listdir(folder))  # noqa: PTH208 - ten times as fast
    except OSError:
        return frozenset()


def _find_module(
    imported: Imported,
    importer: Path,
    bases: Mapping[Path, frozenset[str]],
    is_installed: Callable[[Path], bool],
) -> set[Path]:
    """Return the file of a module and those of the packages above it; none if no folder has the module."""
    parts = imported.name.split(".") if imported.name else []
    if imported.level:
        folders = list(importer.parents[imported.level - 1 : imported.level])
    else:
        folders = [folder for folder, names in bases.items() if parts[0] in names]
    if any(is_installed(folder.joinpath(*parts[:1])) for folder in folders[:1]):
        return set()
    found = next((files for folder in folders if (files := _files_below(folder, parts))), set())
    return {path for path in found if not is_installed(path)}


def _files_below(base: Path, parts: Sequence[str]) -> set[Path]:
    """Return the files that importing `parts` from the folder `base` runs."""
    last = base.joinpath(*parts)
    module = next((path for path in (last / "__init__.py", Path(f"{last}.py")) if path.is_file()), None)
    if module is None:
        return set()
    folders = (base.joinpath(*parts[:depth]) for depth in range(1, len(parts)))
    return {module, *(path for folder in folders if (path := folder / "__init__.py").is_file())}
