"""Measuring tools of benchmarks: memory and CPU of processes, medians over runs, and facts about the machine.

Figures are nested mappings whose leaves are numbers: `{"process": {"64 in flight": {"rollouts_per_s": 812.0}}}`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import psutil
import uvloop

T = TypeVar("T")
Figures: TypeAlias = dict[str, Any]
FigurePath: TypeAlias = tuple[str, ...]
"""The path of a figure: the keys of the nested mappings that lead to it."""

REPOSITORY = Path(__file__).parent.parent
MEASURED = (
    """The folders whose code is behind the figures."""
    "nemo_gym",
    "resources_servers",
    "responses_api_agents",
    "responses_api_models",
    "environment_servers",
    "perf",
)
_PACKAGES = ("aiohttp", "fastapi", "httptools", "orjson", "pydantic", "uvicorn", "uvloop")
"""The libraries of the hot path."""


def family_of(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def memory_mb(processes: Iterable[psutil.Process]) -> float:
    """Return the total memory of the processes in MB: PSS, which counts shared pages once, or else RSS."""
    total = 0
    for process in processes:
        try:
            full = process.memory_full_info()
            total += getattr(full, "pss", full.rss)
        except psutil.NoSuchProcess:
            continue
    return total / 1e6


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU seconds of the processes."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
            total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total


def in_fast_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in the same kind of event loop as the servers. Return its result."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def tell(progress: str) -> None:
    """Print progress to stderr."""
    print(f"  {progress}", file=sys.stderr, flush=True)


# --- Figures ----------------------------------------------------------------------------------------------------


def leaves(figures: Mapping[str, Any], above: FigurePath = ()) -> Iterator[tuple[FigurePath, Any]]:
    """Yield every figure with its path, in order."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name), value


def medians(results: Sequence[Figures]) -> Figures:
    """Return the median of each figure over several results. Values that are not numbers come from the first."""
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
    """Return the median of each figure over several runs."""
    return medians([measure() for _ in range(runs)])


def rounded(figures: Mapping[str, Any], digits: int = 4) -> Figures:
    """Round the figures to `digits` significant digits: further digits are noise, and kept results stay small."""
    return {name: _rounded(value, digits) for name, value in figures.items()}


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, Mapping):
        return rounded(value, digits)
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


# --- Commit and machine -----------------------------------------------------------------------------------------


def circumstances() -> dict[str, Any]:
    """Return the commit, time, machine and library versions of a result."""
    return {
        "commit": commit(),
        "code": digest_code(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {"python": platform.python_version(), **_versions()},
    }


def commit() -> str:
    """Return the short hash of the commit, with a `+` if files have changed; empty outside of git."""
    found = _git("rev-parse", "--short=9", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!perf/results", ":!docs")
    return f"{found}+" if found and changed else found


def digest_code() -> str:
    """Return a digest of the code that the benchmarks measure: 16 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(path for room in MEASURED for path in (REPOSITORY / room).rglob("*.py")):
        if "tests" not in path.parts and not any(part.startswith(".") for part in path.parts):
            digest.update(
                path.relative_to(REPOSITORY).as_posix().encode() + b"\0" + path.read_bytes() + b"\0"
            )
    return digest.hexdigest()


def machine() -> dict[str, Any]:
    """Return a description of the machine. Figures are comparable only within one machine."""
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
