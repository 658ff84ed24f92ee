"""Functions are verbs: few are named `x_of`, or begin with a participle or a preposition.

`build_window(…)` says that it builds; `window_of(…)` leaves open whether it builds, reads or finds one. Properties,
context managers and fixtures are nouns by convention, and stay.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house_counts import find_other_names, is_verb, list_sources

MOST = 200
"""Conversions that are named `to_json` or `to_wire`, hooks, and names that other packages call."""


def test_functions_are_verbs() -> None:
    found = [name for path in list_sources("nemo_gym") for name in find_other_names(path)]
    assert 0 < len(found) <= MOST, "\n".join(found)


@pytest.mark.parametrize(
    "name", ["window_of", "_of_kind", "checked", "missing_rows", "kept_rows", "by_task", "_without"]
)
def test_other_names_are_found(name: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"class C:\n    async def {name}(self): ...\n")
    assert list(find_other_names(module)) == [f"{module}:2: {name}"]


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
    assert not list(find_other_names(module))


def test_only_a_class_method_is_a_constructor(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("class C:\n    @classmethod\n    def from_row(cls): ...\n\ndef from_row(): ...\n")
    assert list(find_other_names(module)) == [f"{module}:5: from_row"]
