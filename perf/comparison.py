"""Compares this checkout with another in alternating runs (A B A B …), and reports the ratios of their figures.

The benchmarks of this checkout measure both, so that the measurements are the same. Each checkout's code comes first on
its `PYTHONPATH`, and it runs in its own `.venv` if it has one; child processes inherit both. Ratios are computed within
a round, so that a slowdown of the machine affects both sides.
"""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from rich.table import Table

from nemo_gym.failures import ConfigError
from perf.measure import REPOSITORY, Figures, leaves, tell


class Ratio(NamedTuple):
    """A figure of both checkouts and their ratio: medians over the rounds, and the ratio's range."""

    figure: str
    here: float
    there: float
    ratio: float
    lowest: float
    highest: float


def compare(benchmark: str, keys: Mapping[str, Any], other: Path, rounds: int) -> list[Ratio]:
    """Return the ratios of all figures over `rounds`. Raises `ConfigError` if `other` is not a checkout of the gym."""
    if not (other / "nemo_gym").is_dir():
        raise ConfigError(
            f"{other} is not a checkout of the gym: it has no folder nemo_gym", code="no_checkout"
        )
    results: list[tuple[Figures, Figures]] = []
    for number in range(1, rounds + 1):
        tell(f"round {number} of {rounds}")
        results.append((measured(benchmark, keys, REPOSITORY), measured(benchmark, keys, other.resolve())))
    return list(ratios(results))


def ratios(rounds: Sequence[tuple[Figures, Figures]]) -> Iterator[Ratio]:
    """Return the ratios of all numbers that both sides have in every round and that are not zero in `other`."""
    tables = [(dict(leaves(here)), dict(leaves(there))) for here, there in rounds]
    for path in tables[0][0]:
        pairs = [(here.get(path), there.get(path)) for here, there in tables]
        numbers = [
            (float(here), float(there))
            for here, there in pairs
            if isinstance(here, int | float) and isinstance(there, int | float) and there
        ]
        if len(numbers) < len(pairs):
            continue
        each = [here / there for here, there in numbers]
        yield Ratio(
            ", ".join(path),
            statistics.median(here for here, _ in numbers),
            statistics.median(there for _, there in numbers),
            statistics.median(each),
            min(each),
            max(each),
        )


def table_of(found: Sequence[Ratio]) -> Table:
    """Return the ratios as a terminal table."""
    table = Table(*Ratio._fields)
    for figure, *values in found:
        table.add_row(figure, *(f"{value:.4g}" for value in values))
    return table


# --- One side ---------------------------------------------------------------------------------------------------


def measured(benchmark: str, keys: Mapping[str, Any], checkout: Path) -> Figures:
    """Run the benchmark once with the code of `checkout`. Raises `ConfigError` if that fails."""
    own = checkout / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    with _only_our_benchmarks() as folder:
        path = os.pathsep.join([str(folder), str(checkout)])
        told = subprocess.run(
            [python, "-m", "perf.comparison"],
            input=orjson.dumps({"benchmark": benchmark, "keys": keys, "checkout": str(checkout)}),
            cwd=folder, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=False,
        )  # fmt: skip
    if told.returncode:
        raise ConfigError(
            f"`{benchmark}` can't be measured on {checkout}: see its error above",
            code="not_measured",
            remedy="Benchmarks measure checkouts that have what they call, which very old ones may not.",
        )
    figures: Figures = orjson.loads(told.stdout.splitlines()[-1])
    return figures


@contextmanager
def _only_our_benchmarks() -> Iterator[Path]:
    """Yield a folder from which only `perf` of this checkout can be imported."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "perf").symlink_to(Path(__file__).parent, target_is_directory=True)
        yield folder


def run_once(benchmark: str, keys: Mapping[str, Any]) -> Figures:
    """Run a benchmark once, with its own keys from the command line."""
    module = importlib.import_module(f"perf.{benchmark}")
    own = getattr(module, "BenchKeys", None)
    figures: Figures = module.run(1, own.model_validate(keys)) if own else module.run(1)
    return figures


def _main() -> None:
    asked = orjson.loads(sys.stdin.buffer.read())
    import nemo_gym

    found = Path(nemo_gym.__path__[0]).resolve().parent
    if found != Path(asked["checkout"]).resolve():
        sys.exit(f"imported the code of {found} instead of {asked['checkout']}")
    sys.stdout.buffer.write(b"\n" + orjson.dumps(run_once(asked["benchmark"], asked["keys"])) + b"\n")


if __name__ == "__main__":
    _main()
