"""Kept results: `perf/results/<benchmark>.jsonl`, one line per run, with the commit, the time and the machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from perf.measure import REPOSITORY, rounded

FOLDER = REPOSITORY / "perf" / "results"
Result: TypeAlias = dict[str, Any]
"""`benchmark`; `commit`, `at`, `machine`, `versions`; `settings` (the keys that were given), `seconds`, `figures`."""


def keep(result: Result, folder: Path = FOLDER) -> Path:
    """Add a result. It replaces an earlier result of the same commit and machine."""
    path = folder / f"{result['benchmark']}.jsonl"
    others = [kept for kept in read(result["benchmark"], folder) if _place(kept) != _place(result)]
    folder.mkdir(parents=True, exist_ok=True)
    kept = [*others, result | {"figures": rounded(result["figures"])}]
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in kept))
    return path


def read(benchmark: str, folder: Path = FOLDER) -> list[Result]:
    """Return the kept results of a benchmark, oldest first."""
    path = folder / f"{benchmark}.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [orjson.loads(line) for line in lines]


def comparable(results: Sequence[Result]) -> list[Result]:
    """Return the results from the same machine as the last one."""
    return [each for each in results if _machine(each) == _machine(results[-1])]


def _place(result: Result) -> tuple[Any, ...]:
    return result["commit"], *_machine(result)


def _machine(result: Result) -> tuple[Any, ...]:
    """Return the facts that must be equal for comparable figures."""
    return result["machine"]["processor"], result["machine"]["cores"]
