"""The counts of the house: its size, its names, its comments, and the modules that one other module imports.

`python -m tests.house_counts` prints them. The tests of the house's rules build on the same functions.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from docs.public_names_page import find_doors, find_facades, is_facade, name_module, read_tree

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "nemo_gym"
SERVERS: Final = (
    "resources_servers",
    "responses_api_agents",
    "responses_api_models",
    "environment_servers",
)
CALLERS: Final = ("nemo_gym", *SERVERS, "simulation", "perf", "examples", "docs")
"""The folders whose imports count. Tests import everything."""

PREPOSITION: Final = re.compile(
    r"about|above|across|after|against|along|among|around|as|at|before|behind|below|beside|between|beyond|"
    r"by|despite|during|except|for|from|in|inside|into|like|near|off|on|onto|out|outside|over|per|since|"
    r"through|to|toward|under|until|up|upon|via|with|within|without"
)
PARTICIPLE: Final = re.compile(
    r"begun|bent|bound|bought|brought|built|caught|done|drawn|driven|felt|found|given|gone|grown|heard|"
    r"held|hidden|kept|known|laid|led|left|lent|lost|made|meant|met|paid|seen|sent|shown|spent|spoken|"
    r"stood|taken|taught|thought|thrown|told|torn|understood|won|worn|written|chosen|broken|frozen"
)
"""Irregular ones. `cut`, `put`, `read`, `run`, `set` and `split` are verbs too."""
VERB_IN_ED_OR_ING: Final = re.compile(
    r"bring|embed|exceed|feed|need|ping|proceed|ring|seed|speed|string|succeed"
)
NOUNS_BY_CONVENTION: Final = frozenset(
    {"property", "cached_property", "setter", "contextmanager", "asynccontextmanager", "fixture"}
)
_DIRECTIVE: Final = re.compile(r"#\s*(noqa|type:|fmt:|ruff:|pragma:|-{3,})")
"""Comments for tools, and lines that divide a file."""

_SCRIPT: Final = re.compile(r'^\w+ = "(nemo_gym[\w.]*):\w+"', re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


# --- Files --------------------------------------------------------------------------------------------------------


def list_sources(*folders: str, root: Path = ROOT) -> Iterator[Path]:
    """Yield the Python files of folders, tests and installed packages aside."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if not {"tests", ".venv", "node_modules"} & set(path.relative_to(root).parts):
                yield path


@cache
def parse_file(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which is parsed once in a process."""
    return read_tree(path)


def count_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def count_comments(path: Path) -> int:
    """Return the lines with a comment for people."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return sum(token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string) for token in tokens)


# --- Names --------------------------------------------------------------------------------------------------------


@cache
def list_functions(path: Path) -> list[Function]:
    return [each for each in ast.walk(parse_file(path)) if isinstance(each, Function)]


def is_verb(name: str) -> bool:
    """Whether a name is neither `x_of`, nor begins with a participle or a preposition."""
    first, *others = name.strip("_").split("_")
    if "of" in (first, *others) or PREPOSITION.fullmatch(first) or PARTICIPLE.fullmatch(first):
        return False
    return not first.endswith(("ed", "ing")) or VERB_IN_ED_OR_ING.fullmatch(first) is not None


def may_be_a_noun(function: Function) -> bool:
    """Whether the function is a property or the like, a class method `from_x`, a hook `on_x` or Python's own."""
    decorators = {ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in function.decorator_list}
    is_constructor = "classmethod" in decorators and function.name.startswith("from_")
    return is_constructor or function.name.startswith(("on_", "__")) or bool(decorators & NOUNS_BY_CONVENTION)


def find_other_names(path: Path) -> Iterator[str]:
    """Yield the functions of a file that should have a verb for a name."""
    for function in list_functions(path):
        if not is_verb(function.name) and not may_be_a_noun(function):
            yield f"{path}:{function.lineno}: {function.name}"


def find_public_classes() -> dict[str, list[str]]:
    """Return the places of every public class, nested ones and those of private modules included, by name."""
    places = defaultdict(list)
    for path in list_sources("nemo_gym"):
        for element in ast.walk(parse_file(path)):
            if isinstance(element, ast.ClassDef) and not element.name.startswith("_"):
                places[element.name].append(f"{path.relative_to(ROOT)}:{element.lineno}")
    return places


# --- Imports ------------------------------------------------------------------------------------------------------


class LoneModule(NamedTuple):
    """A module that only one other module imports, which is in the same folder."""

    module: str
    importer: str
    lines: int
    """Of both together."""


def find_imports(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield what a file imports: a module, and the name in it. A text that is a module's name is an import too."""
    for element in ast.walk(parse_file(path)):
        match element:
            case ast.ImportFrom(module=str(module), level=0):
                yield from ((module, each.name) for each in element.names)
            case ast.Import():
                yield from ((each.name, None) for each in element.names)
            case ast.Constant(value=str(text)) if text.startswith("nemo_gym."):
                yield text.partition(":")[0], None


@cache
def find_importers() -> Mapping[str, frozenset[str]]:
    """Return the files that import each module of the package, tests aside."""
    modules = {name_module(path) for path in list_sources("nemo_gym")}
    importers: dict[str, set[str]] = {module: set() for module in modules}
    for path in list_sources(*CALLERS):
        for module, name in find_imports(path):
            target = f"{module}.{name}" if f"{module}.{name}" in modules else module
            if target in modules and target != name_module(path):
                importers[target].add(str(path.relative_to(ROOT)))
    for module in _SCRIPT.findall((ROOT / "pyproject.toml").read_text(encoding="utf-8")):
        importers[module].add("pyproject.toml")
    return {module: frozenset(found) for module, found in importers.items()}


def find_lone_modules() -> Iterator[LoneModule]:
    """Yield the modules that one file of their own folder imports, and nothing else."""
    for path in list_sources("nemo_gym"):
        importers = find_importers()[name_module(path)]
        if path.stem == "__init__" or is_facade(parse_file(path)) or len(importers) != 1:
            continue
        (importer,) = importers
        if (ROOT / importer).parent == path.parent:
            yield LoneModule(name_module(path), importer, sum(map(count_lines, (path, ROOT / importer))))


def find_ecosystem_only() -> Iterator[str]:
    """Yield the modules that only import paths of the ecosystem import, directly or through one another."""
    paths = {name_module(path): path for path in list_sources("nemo_gym")}
    only = {str(path.relative_to(ROOT)) for path in paths.values() if is_facade(parse_file(path))}
    facades, size = frozenset(only), 0
    while size != len(only):
        size = len(only)
        only |= {
            str(paths[module].relative_to(ROOT))
            for module, importers in find_importers().items()
            if importers and importers <= only and paths[module].stem != "__init__"
        }
    yield from sorted(only - facades)


# --- The table ----------------------------------------------------------------------------------------------------


def count_house() -> dict[str, str]:
    """Return the counts by their names."""
    files = list(list_sources("nemo_gym"))
    lines = sum(map(count_lines, files))
    functions = sum(len(list_functions(path)) for path in files)
    others = sum(1 for path in files for _ in find_other_names(path))
    lone = list(find_lone_modules())
    fitting = sum(each.lines <= 450 for each in lone)
    return {
        "modules": f"{len(files):,}",
        "lines": f"{lines:,}",
        "lines of a module": f"{lines / len(files):.0f}",
        "public classes": f"{len(find_public_classes()):,}",
        "names in __all__": f"{sum(len(names) for _, _, names in find_doors()):,}",
        "import paths of the ecosystem": f"{sum(1 for _ in find_facades()):,}",
        "functions": f"{functions:,}",
        "functions without a verb": f"{others:,} ({others / functions:.1%})",
        "comments per 100 lines": f"{100 * sum(map(count_comments, files)) / lines:.1f}",
        "modules with one importer, their neighbour": f"{len(lone):,} ({fitting:,} fit into it)",
    }


def main(arguments: list[str]) -> int:
    counts = count_house()
    width = max(map(len, counts))
    for name, count in counts.items():
        print(f"{name:{width}}  {count}")
    if "lone" in arguments:
        for each in sorted(find_lone_modules(), key=lambda each: each.lines):
            print(f"{each.lines:5}  {each.module}  ->  {each.importer}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
