"""What benchmarks measure with: processes' memory and CPU, medians over runs, and where and of what figures were had.

Figures are nested mappings whose leaves are numbers: `{"process": {"64 in flight": {"rollouts_per_s": 812.0}}}`.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

import psutil
import uvloop

Figures: TypeAlias = dict[str, Any]
FigurePath: TypeAlias = tuple[str, ...]
"""Where a figure stands: the names of the mappings that lead to it, and its own."""

REPOSITORY = Path(__file__).parent.parent
_PACKAGES = ("aiohttp", "fastapi", "httptools", "orjson", "pydantic", "uvicorn", "uvloop")
"""The libraries that the hot path runs on."""


def family_of(pid: int) -> list[psutil.Process]:
    """A process and all its descendants."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def memory_mb(processes: Iterable[psutil.Process]) -> float:
    """Memory that the processes use together, in MB: shared pages count once (PSS), or RSS where there is no PSS."""
    total = 0
    for process in processes:
        try:
            full = process.memory_full_info()
            total += getattr(full, "pss", full.rss)
        except psutil.NoSuchProcess:
            continue
    return total / 1e6


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Seconds of CPU that the processes have used."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
            total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total


def in_fast_loop(work: Coroutine[Any, Any, Figures]) -> Figures:
    """The result of `work`, in an event loop as the servers have one."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def tell(progress: str) -> None:
    """Say how far a long run is, beside its result."""
    print(f"  {progress}", file=sys.stderr, flush=True)


# --- Figures ----------------------------------------------------------------------------------------------------


def leaves(figures: Mapping[str, Any], above: FigurePath = ()) -> Iterator[tuple[FigurePath, Any]]:
    """Every figure with its path, in order."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name), value


def medians(results: Sequence[Figures]) -> Figures:
    """The median of each figure over the results of several runs; of what is no number, the first run's."""
    merged: Figures = {}
    for name, value in results[0].items():
        values = [result[name] for result in results]
        if isinstance(value, dict):
            merged[name] = medians(values)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            merged[name] = value
        else:
            merged[name] = statistics.median(values)
    return merged


def median_of(runs: int, measure: Callable[[], Figures]) -> Figures:
    """The median of each figure over several runs."""
    return medians([measure() for _ in range(runs)])


def rounded(figures: Mapping[str, Any], digits: int = 4) -> Figures:
    """The figures with so many significant digits: what is beyond them is noise, and kept results stay small."""
    return {name: _rounded(value, digits) for name, value in figures.items()}


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, Mapping):
        return rounded(value, digits)
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


# --- Where and of what ------------------------------------------------------------------------------------------


def circumstances() -> dict[str, Any]:
    """What a kept result says about itself: commit, time, machine and libraries."""
    return {
        "commit": commit(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {"python": platform.python_version(), **_versions()},
    }


def commit() -> str:
    """The commit that is checked out, shortened, with a `+` where files have changed since; empty outside of git."""
    found = _git("rev-parse", "--short=9", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!perf/results", ":!docs")
    return f"{found}+" if found and changed else found


def machine() -> dict[str, Any]:
    """Where figures were had: they compare within one machine only."""
    model = next(
        (line.partition(":")[2].strip() for line in _read("/proc/cpuinfo") if line.startswith("model name")),
        "",
    )
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": model or platform.processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _git(*arguments: str) -> str:
    try:
        told = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return told.stdout.strip()


def _read(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []
