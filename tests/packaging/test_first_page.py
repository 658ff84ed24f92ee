"""The README's first page and the quick start, in an empty folder and a fresh environment: `make test-docs`.

The blocks are those of the pages. The engine stub takes the place of vLLM, and the terminal has 80 columns. The output
has to be the one that the pages show, except for times and rates.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.run_page import ENGINE_ON_PAGES
from docs.snippets import Snippet, snippets_of
from nemo_gym import PARENT_DIR
from nemo_gym.mock_engine import EngineOptions, EngineProcess

pytestmark = pytest.mark.skipif(
    "NEMO_GYM_TEST_DOCS" not in os.environ, reason="installs the package: make test-docs"
)
CHECKOUT_ON_PAGES = "/path/to/the/checkout"
COLUMNS = 80
_TIMES = re.compile(r"\d+:\d\d\b|[\d,.]+/s")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def masked(text: str) -> list[str]:
    """Return the lines without times, rates, control sequences and trailing spaces."""
    plain = _TIMES.sub("#", _CONTROL.sub("", text))
    return [line.rstrip() for line in plain.splitlines() if line.strip()]


class Newcomer:
    """A shell in an empty folder, with 80 columns."""

    engine = ""
    """The address of the engine stub, without `/v1`."""

    def __init__(self, folder: Path) -> None:
        (folder / "runtime").mkdir(mode=0o700)
        self.folder = folder / "empty"
        self.folder.mkdir()
        own = ("PYTHONPATH", "VIRTUAL_ENV", "NEMO_GYM_WORKING_DIR", "COLUMNS")
        kept = {name: value for name, value in os.environ.items() if name not in own}
        self._environment = {
            **kept,
            "XDG_RUNTIME_DIR": str(folder / "runtime"),
            "TERM": "xterm",
            "NO_COLOR": "1",
        }

    def type(self, text: str) -> str:
        """Run a block, which must succeed, and return what it prints on the terminal."""
        script = text.replace(ENGINE_ON_PAGES, self.engine).replace(CHECKOUT_ON_PAGES, str(PARENT_DIR))
        if (self.folder / ".venv").exists():
            script = f". .venv/bin/activate\n{script}"
        reader, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        with (self.folder.parent / "errors.txt").open("w+b") as errors:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self.folder, env=self._environment, stdout=terminal, stderr=errors, stdin=terminal,
            )  # fmt: skip
            os.close(terminal)
            printed = _read_all(reader)
            errors.seek(0)
            assert process.wait() == 0, f"{text}\n{printed}\n{errors.read().decode()}"
        return printed


def _read_all(reader: int) -> str:
    """Return everything that is written to a terminal until its last writer has closed it."""
    parts = list[bytes]()
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:  # Linux reports the end of a terminal as an error
            part = b""
        if not part:
            os.close(reader)
            return b"".join(parts).decode()
        parts.append(part)


GOLD = PARENT_DIR / "resources_servers" / "mcqa" / "data" / "example_gold.yaml"
"""The pages start the engine stub with `--gold mcqa --accuracy 0.7`, whose replies depend on those before."""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    return Newcomer(tmp_path_factory.mktemp("newcomer"))


@pytest.fixture
def newcomer(shell: Newcomer) -> Iterator[Newcomer]:
    """The shell, with an engine stub that has not replied yet."""
    with EngineProcess(EngineOptions(model="Qwen/Qwen3-8B", gold=GOLD, accuracy=0.7)) as engine:
        shell.engine = engine.base_url.removesuffix("/v1")
        yield shell


def shown(name: str) -> list[Snippet]:
    page = (PARENT_DIR / name).read_text(encoding="utf-8")
    return [snippet for snippet in snippets_of(page) if not snippet.is_hidden]


def agree(printed: str, page: str) -> None:
    """Fail unless every line that the page shows is printed, in that order."""
    lines = iter(masked(printed))
    for expected in masked(page):
        assert expected in lines, f"not printed: {expected!r}\n{printed}"


def test_the_first_page_of_the_readme(newcomer: Newcomer) -> None:
    installation, table = shown("README.md")[:2]
    assert "pip install" in installation.text
    agree(newcomer.type(installation.text.replace("pip install", "pip install --quiet")), table.text)


def test_the_quick_start(newcomer: Newcomer) -> None:
    blocks = shown("docs/quick_start.md")
    compared = 0
    for block, following in zip(blocks, [*blocks[1:], Snippet(0, "", "")], strict=True):
        if block.is_executed and block.mark is None:
            again = block.text.replace("-n 4\n", "-n 4 --overwrite\n")  # the README's run has the same output
            printed = newcomer.type(again)
            if following.language == "" and following.text:
                agree(printed, following.text)
                compared += 1
    assert compared == 2
    assert (newcomer.folder / "report.html").is_file()
