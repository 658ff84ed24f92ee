"""The provider and the server on the page of sandboxes work as they are printed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from docs.snippets import DOCS, snippets_of
from nemo_gym.sandbox.providers.class_checks import find_option_problems
from nemo_gym.testing import run_environment

PAGE = DOCS / "sandboxes.md"
ROW = {"responses_create_params": {"input": "What is 2 + 2?"}}
MODULES = ("folder_provider", "shell")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files of the page, which can be imported from it."""
    for snippet in snippets_of(PAGE.read_text(encoding="utf-8")):
        if snippet.file is not None:
            (tmp_path / snippet.file).write_text(snippet.text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)


def test_the_provider_on_the_page_passes_its_test(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_folder_provider.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.usefixtures("folder")
def test_the_options_of_the_provider_on_the_page_are_checked() -> None:
    provider: Any = import_module("folder_provider").FolderProvider
    (problem,) = find_option_problems("folder", provider, {"rot": "/tmp"}, ("sandbox", "folder"))
    assert problem.remedy == "Did you mean 'root'? The options are root, shell."
    assert provider.find_missing({}) is None
    assert provider.find_missing({"shell": "no-such-shell"}) == "its shell is not on the search path"


def test_the_server_on_the_page_scores_in_its_sandbox(folder: Path) -> None:
    shell = import_module("shell").ShellServer
    provider: Any = import_module("folder_provider").FolderProvider
    from nemo_gym.sandbox.providers import registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_registered", {"folder": provider})
        rows = run_environment(
            shell, [ROW, ROW], ["Four."], sandbox_provider={"folder": {"root": str(folder)}}
        )
    assert [row["reward"] for row in rows] == [1.0, 1.0]
    assert [each.name for each in folder.iterdir() if each.name.startswith("tmp")] == []
