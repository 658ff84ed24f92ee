"""The front door: the names that users import are declared, exist, and are all that our own servers and docs import."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.public_names_page import find_doors, find_facades, name_module, render_page
from nemo_gym import PARENT_DIR

MOST_NAMES = 357
SERVERS = (
    "resources_servers",
    "responses_api_agents",
    "responses_api_models",
    "environment_servers",
    "examples",
)
_SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

NEED_TORCH = {"nemo_gym.testing.tiny_model", "nemo_gym.testing.transformers_engine"}
DOORS = {module: set(names) for module, _, names in find_doors()}
FACADES = {module: set(names) for module, _, names in find_facades()}


def read_sources() -> Iterator[tuple[str, str]]:
    """Yield the code that users read or copy: our servers, the examples, the templates, the snippets of the docs."""
    for folder in SERVERS:
        for path in (PARENT_DIR / folder).rglob("*.py"):
            if ".venv" not in path.parts:
                yield str(path.relative_to(PARENT_DIR)), path.read_text(encoding="utf-8")
    for path in (PARENT_DIR / "nemo_gym" / "authoring").rglob("*.py*"):
        if "template" in str(path) and path.suffix != ".pyc":
            yield str(path.relative_to(PARENT_DIR)), path.read_text(encoding="utf-8")
    for path in (*(PARENT_DIR / "docs").rglob("*.md"), PARENT_DIR / "README.md"):
        for number, snippet in enumerate(_SNIPPET.findall(path.read_text(encoding="utf-8"))):
            yield f"{path.relative_to(PARENT_DIR)}, snippet {number + 1}", snippet


def find_imports(source: str) -> Iterator[tuple[str, str | None]]:
    """Yield what a source imports of the package: a module, and the name in it."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a snippet of a part of a file
        return
    for statement in ast.walk(tree):
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").split(".")[0] == "nemo_gym":
            yield from ((str(statement.module), each.name) for each in statement.names)
        elif isinstance(statement, ast.Import):
            yield from (
                (each.name, None) for each in statement.names if each.name.split(".")[0] == "nemo_gym"
            )


def is_public(module: str, name: str | None) -> bool:
    if name is None:
        return module == "nemo_gym" or module in DOORS or module in FACADES
    declared = DOORS.get(module, set()) | FACADES.get(module, set())
    return name in declared or f"{module}.{name}" in DOORS or f"{module}.{name}" in FACADES


def test_the_page_is_the_one_that_the_modules_make() -> None:
    page = (PARENT_DIR / "docs" / "public_names.md").read_text(encoding="utf-8")
    assert page == render_page(), "run: python docs/public_names_page.py docs/public_names.md"


def test_few_names_are_public() -> None:
    assert 0 < sum(map(len, DOORS.values())) <= MOST_NAMES


@pytest.mark.parametrize("module", sorted(DOORS))
def test_the_names_of_a_list_exist(module: str) -> None:
    if module in NEED_TORCH:
        pytest.importorskip("torch", reason="the module is for trainers")
    found = importlib.import_module(module)
    assert [name for name in sorted(DOORS[module]) if not hasattr(found, name)] == []


def test_docs_templates_and_servers_import_public_names_only() -> None:
    found = {
        f"{place}: {module}" + (f".{name}" if name else "")
        for place, source in read_sources()
        for module, name in find_imports(source)
        if not is_public(module, name)
    }
    assert sorted(found) == []


def test_an_import_from_within_is_found() -> None:
    assert [
        is_public(*each) for each in find_imports("from nemo_gym.rollouts.run.collect import collect")
    ] == [False]
    assert [
        is_public(*each) for each in find_imports("from nemo_gym.verify.answers import final_answer")
    ] == [True]
    assert [is_public(*each) for each in find_imports("import nemo_gym.launch")] == [False]


def find_private_imports(path: Path) -> Iterator[str]:
    """Yield the private modules of other packages that a file of the package imports."""
    own = name_module(path).split(".")
    for module, name in find_imports(path.read_text(encoding="utf-8")):
        parts = module.split(".") + (
            [name] if name and (PARENT_DIR / module.replace(".", "/") / f"{name}.py").exists() else []
        )
        for depth, part in enumerate(parts):
            if part.startswith("_") and not part.startswith("__") and own[:depth] != parts[:depth]:
                yield f"{'.'.join(own)} imports {'.'.join(parts)}"


def test_a_module_with_an_underscore_is_private_to_its_package() -> None:
    files = sorted((PARENT_DIR / "nemo_gym").rglob("*.py"))
    assert [each for path in files for each in find_private_imports(path)] == []
