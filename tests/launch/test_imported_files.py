"""Finding the files that a file imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.launch._imported_files import Imported, find_imported_files, read_imports


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(root: Path, *sources: str, search_path: tuple[str, ...] = ("",)) -> set[str]:
    files = find_imported_files(
        [root / source for source in sources],
        [root / each for each in search_path],
        lambda path: "site-packages" in path.parts,
    )
    return {str(path.relative_to(root)) for path in files}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import a", "a"),
        ("import os, a as b", "a"),
        ("import a.b.c", "a.b.c"),
        ("from a import b", "a.b"),
        ("from a import (\n    x,  # see (the) notes\n    b,\n)", "a.b"),
        ("from a import x, \\\n    b", "a.b"),
        ("from a \\\n    import b", "a.b"),
        ("from a import*", "a"),
        ("try:\n    import a\nexcept ImportError:\n    a = None", "a"),
        ("def f():\n\tfrom a import b", "a.b"),
        ("if x: import a", "a"),
        ("x = 1; import a", "a"),
        (
            "async def f():\n    async with g():\n        match x:\n            case 1:\n                import a",
            "a",
        ),
        ("class A:\n    import a", "a"),
    ],
)
def test_every_form_of_an_import_is_seen(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "x.py").write_text(text)
    assert Imported(0, name) in read_imports(tmp_path / "x.py")


def test_relative_imports_keep_their_dots(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("from . import a\nfrom .b import c\nfrom ..d import e")
    assert {Imported(1, "a"), Imported(1, "b"), Imported(2, "d.e")} <= set(read_imports(tmp_path / "x.py"))


@pytest.mark.parametrize(
    "text", ["", '"""from here to there"""', "import (", "x = 'é'.encode()", "\x00import"]
)
def test_a_text_without_an_import_has_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.py").write_bytes(text.encode("latin-1"))
    assert read_imports(tmp_path / "x.py") == []
    assert read_imports(tmp_path / "gone.py") == []


def test_imports_are_followed_through_packages_and_circles(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "env/app.py": "from shared.scoring import score",
            "shared/__init__.py": "",
            "shared/scoring.py": "from .rules import strict\nimport helper",
            "shared/rules/__init__.py": "from . import strict",
            "shared/rules/strict.py": "from ..scoring import score",
            "shared/unused.py": "",
            "helper.py": "import numpy",
        },
    )
    assert found(tmp_path, "env/app.py") == {
        "shared/__init__.py",
        "shared/scoring.py",
        "shared/rules/__init__.py",
        "shared/rules/strict.py",
        "helper.py",
    }


def test_a_package_without_an_init_file_holds_modules_too(tmp_path: Path) -> None:
    write(tmp_path, {"app.py": "import spaces.one.two", "spaces/one/two.py": ""})
    assert found(tmp_path, "app.py") == {"spaces/one/two.py"}


def test_the_first_folder_of_the_search_path_wins(tmp_path: Path) -> None:
    write(tmp_path, {"app.py": "import rules", "first/rules.py": "", "second/rules.py": ""})
    assert found(tmp_path, "app.py", search_path=("first", "second", "gone")) == {"first/rules.py"}


def test_installed_packages_are_neither_found_nor_followed(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"app.py": "import lib", "site-packages/lib.py": "import mine", "mine.py": "", "lib/readme.txt": ""},
    )
    assert found(tmp_path, "app.py", search_path=("", "site-packages")) == set()
