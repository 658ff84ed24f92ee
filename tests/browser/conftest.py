"""The viewer's page in a real browser: `make test-browser` installs what the tests need; elsewhere they are skipped."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from tests.browser.visits import Visit

STOP_TIMEOUT_S = 30
WIDTHS = {"width": 1280, "height": 800}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = find_spec("playwright") is None or shutil.which("chromium") is None
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.filterwarnings("default"))
        if missing:
            item.add_marker(pytest.mark.skip(reason="needs Playwright and Chromium: make test-browser"))


@contextmanager
def serving(places: Sequence[Path], *keys: str) -> Iterator[str]:
    """Serve the runs at `places` in a process of its own, and yield the address with its token."""
    command = [
        sys.executable,
        "-m",
        "nemo_gym.cli.view",
        f"+places=[{','.join(map(str, places))}]",
        "+json=true",
        *keys,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PARENT_DIR) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_TIMEOUT_S)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Visit]:
    """A page in a browser without cookies or settings. Errors and requests to other origins fail the test."""
    context = chromium.new_context(viewport=WIDTHS, color_scheme="light")
    visit = Visit(context)
    yield visit
    context.close()
    assert visit.problems() == []


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of the demo: 15 tasks of 3 environments, 2 rollouts each."""
    rows = tmp_path_factory.mktemp("demo") / "rollouts.jsonl"
    command = [
        *(
            str(Path(sys.executable).with_name("ng_e2e_collect_rollouts")),
            "+config_paths=[configs/demo.yaml]",
        ),
        *(f"+output_jsonl_fpath={rows}", "+num_repeats=2", "+overwrite=true"),
    ]
    subprocess.run(command, check=True, cwd=PARENT_DIR, stdout=subprocess.DEVNULL)
    return rows


@pytest.fixture(scope="session")
def demo(demo_run: Path) -> Iterator[str]:
    """The address of a viewer of the demo's run."""
    with serving([demo_run]) as address:
        yield address
