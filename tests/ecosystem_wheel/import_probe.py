"""Import every `app.py` in a fork of its own, and look up every imported name of the gym. Runs beside the wheel.

Standard input: the paths of the files, relative to the current folder, one a line. Standard output: one JSON object a
line, `{"file", "error": null | {"type", "module", "text"}}`. Imports the standard library only, and the gym.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path

CPU_LIMIT_S = 120
"""Seconds of CPU time for one import: a busy machine changes no verdict."""
WALL_LIMIT_S = 1200
"""Seconds after which an import that waits for something is ended."""
SHARED = (
    "openai",
    "nemo_gym.base_resources_server",
    "nemo_gym.base_responses_api_agent",
    "nemo_gym.server_utils",
)
"""Modules that almost every file imports. The parent imports them once; the forks inherit them."""


def main() -> None:
    for module in SHARED:
        importlib.import_module(module)
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps({"file": line.strip(), "error": probe(Path(line.strip()))}), flush=True)


def probe(file: Path) -> dict[str, str] | None:
    """Return the error of importing `file`, or None."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _import_and_exit(file, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text:
        return {"type": "Killed", "module": "", "text": f"the process ended, perhaps after {CPU_LIMIT_S} s"}
    found: dict[str, str] | None = json.loads(text)
    return found


def _import_and_exit(file: Path, writer: int) -> None:
    signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
    signal.alarm(WALL_LIMIT_S)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.path.append(str(file.parent.resolve()))
    error: dict[str, str] | None = None
    try:
        importlib.import_module(".".join(file.with_suffix("").parts))
    except BaseException as failure:  # noqa: BLE001  # author code may raise anything
        error = _to_wire(failure)
    with os.fdopen(writer, "w", encoding="utf-8") as answer:
        json.dump(error, answer)
    os._exit(0)


def _to_wire(failure: BaseException) -> dict[str, str]:
    text = "".join(traceback.format_exception_only(failure)).strip()
    return {"type": type(failure).__name__, "module": str(getattr(failure, "name", "") or ""), "text": text}


if __name__ == "__main__":
    main()
