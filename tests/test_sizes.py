"""No source file has more than 450 lines, and no function more than 40: a longer one holds two subjects."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES_OF_A_FILE = 450
MOST_LINES_OF_A_FUNCTION = 40
SOURCES = (
    "nemo_gym",
    "resources_servers",
    "responses_api_agents",
    "responses_api_models",
    "environment_servers",
    "simulation",
    "perf",
    "examples",
    "docs",
)


def too_long(path: Path) -> Iterator[str]:
    """Yield the file and its functions, as text, that have too many lines."""
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > MOST_LINES_OF_A_FILE:
        yield f"{path}: {lines} lines"
    for element in ast.walk(ast.parse(text)):
        if isinstance(element, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (element.end_lineno or element.lineno) - element.lineno + 1
            if length > MOST_LINES_OF_A_FUNCTION:
                yield f"{path}:{element.lineno}: {element.name}, {length} lines"


def test_no_source_file_and_no_function_is_too_long() -> None:
    files = [path for name in SOURCES for path in (ROOT / name).rglob("*.py") if "tests" not in path.parts]
    assert len(files) > 500
    assert [found for path in files for found in too_long(path)] == []


def test_a_file_and_a_function_that_are_too_long_are_found(tmp_path: Path) -> None:
    module = tmp_path / "long.py"
    module.write_text("def fits():\n" + "    pass\n" * 39 + "def long():\n" + "    pass\n" * 410)
    assert list(too_long(module)) == [f"{module}: 451 lines", f"{module}:41: long, 411 lines"]
