"""Kept results: `perf/results/<benchmark>.jsonl`, a line a run, with the commit, the time and the machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

from perf.measure import REPOSITORY, Figures, rounded

FOLDER = REPOSITORY / "perf" / "results"


@dataclass(frozen=True, slots=True)
class Result:
    """What a benchmark said once."""

    benchmark: str
    figures: Figures
    circumstances: dict[str, Any]
    """Commit, time, machine and versions."""
    settings: dict[str, Any]
    """The keys that were given, and the number of runs."""
    seconds: float

    @property
    def commit(self) -> str:
        return str(self.circumstances["commit"])

    @property
    def machine(self) -> tuple[Any, ...]:
        """What has to be the same for figures to compare."""
        machine = self.circumstances["machine"]
        return machine["processor"], machine["cores"]

    def to_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            **self.circumstances,
            "settings": self.settings,
            "seconds": self.seconds,
            "figures": rounded(self.figures),
        }

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> Self:
        named = ("benchmark", "figures", "settings", "seconds")
        rest = {name: value for name, value in line.items() if name not in named}
        return cls(line["benchmark"], line["figures"], rest, line["settings"], line["seconds"])


def keep(result: Result, folder: Path = FOLDER) -> Path:
    """Add the result to those of its benchmark, in place of one of the same commit and machine."""
    path = folder / f"{result.benchmark}.jsonl"
    others = [
        kept for kept in read(result.benchmark, folder)
        if (kept.commit, kept.machine) != (result.commit, result.machine)
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(each.to_json()) + b"\n" for each in (*others, result)))
    return path


def read(benchmark: str, folder: Path = FOLDER) -> list[Result]:
    """The kept results of a benchmark, the oldest first."""
    path = folder / f"{benchmark}.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [Result.from_json(orjson.loads(line)) for line in lines]


def comparable(results: list[Result]) -> list[Result]:
    """Those that were had on the machine of the last."""
    return [each for each in results if each.machine == results[-1].machine]
