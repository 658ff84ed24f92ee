"""No source file has more than 450 lines, and no function more than 40: a longer one holds two subjects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.house_counts import CALLERS, count_lines, list_functions, list_sources

MOST_LINES_OF_A_FILE = 450
MOST_LINES_OF_A_FUNCTION = 40


def too_long(path: Path) -> Iterator[str]:
    """Yield the file and its functions, as text, that have too many lines."""
    lines = count_lines(path)
    if lines > MOST_LINES_OF_A_FILE:
        yield f"{path}: {lines} lines"
    for function in list_functions(path):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > MOST_LINES_OF_A_FUNCTION:
            yield f"{path}:{function.lineno}: {function.name}, {length} lines"


def test_no_source_file_and_no_function_is_too_long() -> None:
    files = list(list_sources(*CALLERS))
    assert len(files) > 500
    assert [found for path in files for found in too_long(path)] == []


def test_a_file_and_a_function_that_are_too_long_are_found(tmp_path: Path) -> None:
    module = tmp_path / "long.py"
    module.write_text("def fits():\n" + "    pass\n" * 39 + "def long():\n" + "    pass\n" * 410)
    assert list(too_long(module)) == [f"{module}: 451 lines", f"{module}:41: long, 411 lines"]
