"""Runs a page of the documentation, so that what it says is what happens.

    python docs/run_page.py docs/writing_an_environment.md [folder]

In an empty folder (a temporary one unless given) the page's blocks of bash and Python are run in order, and end the run
where one fails. A block that names a file is written where the file is not there yet, and has to be the same where it
is. `snippets.py` describes the marks of blocks. NEMO_GYM_DOCS_ENGINE is the address of the engine that takes the place
of http://localhost:8000, without `/v1`.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from docs.snippets import Snippet, snippets_of

ENGINE_ON_PAGES = "http://localhost:8000"
ENGINE_VARIABLE = "NEMO_GYM_DOCS_ENGINE"
_READY_WITHIN_S = 120
_STOPPED_WITHIN_S = 60


def run_page(page: Path, folder: Path) -> None:
    """Raises `CalledProcessError` for a command that fails, `ValueError` for a file that is not as the page has it."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    names: dict[str, Any] = {"__name__": "page"}
    with ExitStack() as running:
        for snippet in snippets_of(page.read_text(encoding="utf-8")):
            if snippet.file is not None:
                _agree(folder / snippet.file, snippet)
            elif snippet.is_executed:
                _execute(snippet, page, names, running)


def _execute(snippet: Snippet, page: Path, names: dict[str, Any], running: ExitStack) -> None:
    text = snippet.text.replace(ENGINE_ON_PAGES, os.environ.get(ENGINE_VARIABLE, ENGINE_ON_PAGES))
    place = f"{page.name}:{snippet.line}"
    sys.stdout.write(f"== {place}\n")
    sys.stdout.flush()
    if snippet.language == "python":
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        _run_code(compile("\n" * snippet.line + text, str(page), "exec", flags), names)
    elif snippet.mark == "until":
        running.enter_context(_in_background(text, snippet.value))
    elif snippet.mark == "starts":
        with _in_background(text, snippet.value):
            pass
    else:
        expected = int(snippet.value) if snippet.mark == "exit code" else 0
        done = subprocess.run(_bash(text), env=_environment(), check=False)
        if done.returncode != expected:
            raise subprocess.CalledProcessError(done.returncode, f"{place}: {text}")


def _run_code(code: CodeType, names: dict[str, Any]) -> None:
    result = eval(code, names)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def _bash(text: str) -> list[str]:
    return ["bash", "-euo", "pipefail", "-c", text]


def _environment() -> dict[str, str]:
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": programs}


@contextmanager
def _in_background(text: str, ready: str) -> Iterator[None]:
    """Run a block until the page ends. Returns when its output has the text `ready`."""
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            _bash(text), env=_environment(), stdout=output, stderr=output, start_new_session=True
        )
        try:
            _wait_for(ready, Path(output.name), process)
            yield
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(_STOPPED_WITHIN_S)


def _wait_for(ready: str, output: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _READY_WITHIN_S
    while ready not in (printed := output.read_text(encoding="utf-8")):
        if process.poll() is not None or time.monotonic() > until:
            raise ValueError(f"{ready!r} was not printed:\n{printed}")
        time.sleep(0.05)


def _agree(path: Path, block: Snippet) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != block.text:
        raise ValueError(f"{block.file} is not what the page shows:\n{path.read_text(encoding='utf-8')}")


if __name__ == "__main__":
    began = time.monotonic()
    page = Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        run_page(page, Path(sys.argv[2]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            run_page(page, Path(temporary).resolve())
    sys.stdout.write(f"{sys.argv[1]} ran in {time.monotonic() - began:.1f} s\n")
