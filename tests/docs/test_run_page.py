"""Every page runs as a script in an empty folder, with the engine stub in the place of vLLM.

The pages share one stub. `make test` runs the pages of the first steps, `make test-docs` all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.run_page import ENGINE_VARIABLE
from docs.snippets import pages, snippets_of
from nemo_gym import PARENT_DIR
from nemo_gym.mock_engine import EngineOptions, EngineProcess

ALWAYS = {"install", "python", "quick_start", "training"}
OWN_TESTS = {"writing_an_environment"}
EXECUTED = [
    page
    for page in pages()
    if page.stem not in OWN_TESTS
    and any(snippet.is_executed for snippet in snippets_of(page.read_text(encoding="utf-8")))
]
LIMIT_S = 900


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """The address of the engine stub, without `/v1`."""
    with EngineProcess(EngineOptions(model="Qwen/Qwen3-8B")) as process:
        yield process.base_url.removesuffix("/v1")


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: page.stem)
def test_the_page_runs(page: Path, engine: str, tmp_path: Path) -> None:
    if page.stem not in ALWAYS and "NEMO_GYM_TEST_DOCS" not in os.environ:
        pytest.skip("make test-docs runs every page")
    (tmp_path / "runtime").mkdir(mode=0o700)
    (tmp_path / "empty").mkdir()
    own = {ENGINE_VARIABLE: engine, "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    done = subprocess.run(
        [sys.executable, str(PARENT_DIR / "docs" / "run_page.py"), str(page), str(tmp_path / "empty")],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_pages_are_among_those_that_always_run() -> None:
    assert {page.stem for page in EXECUTED} >= ALWAYS
