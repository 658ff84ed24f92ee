"""`python -m perf <name>`: one benchmark, its figures as JSON; `python -m perf all`: every one of them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import Field, create_model

from nemo_gym.cli.command import Command, ExitCode, Keys
from nemo_gym.failures import ConfigError

ALL = "all"
_ENDS: Mapping[int, str] = {ExitCode.COMPLETE: "done", ExitCode.BAD_INPUT: "left out, it can't run here"}
"""Descriptions of the exit codes of successful benchmarks."""


class BenchKeys(Keys):
    name: str = Field(description="A benchmark such as `startup`, or `all`. `name=` may be omitted.")
    runs: int = Field(5, ge=1, description="Number of runs for the medians.")
    output: Path | None = Field(
        None, alias="json", description="A file for the result, which is also printed."
    )
    keep: bool = Field(False, description="Keep the result in `perf/results`, under the commit.")
    against: Path | None = Field(
        None,
        description="Another checkout: measure both in alternation, and print the ratios of their figures.",
    )


COMMAND = Command(
    name="python -m perf",
    summary="Measure the gym: one benchmark, medians of several runs, as JSON.",
    example="python -m perf startup",
    keys=BenchKeys,
)


def main(argv: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = ""
    if arguments and not arguments[0].startswith(("-", "+")) and "=" not in arguments[0]:
        name = arguments[0]
        arguments[0] = f"+name={name}"
    sys.exit(command_of(name).run(arguments, run_benchmark))


def command_of(name: str) -> Command[BenchKeys]:
    """Return the command with the keys of the benchmark `name`."""
    from perf.catalogue import BENCHMARKS

    if name not in BENCHMARKS:
        return COMMAND
    own = getattr(_module(name), "BenchKeys", None)
    keys = create_model("BenchKeys", __base__=(BenchKeys, own)) if own else BenchKeys
    return Command(
        name=COMMAND.name,
        summary=f"Measure {BENCHMARKS[name].summary}.",
        example=f"python -m perf {name}",
        keys=keys,
    )


def run_benchmark(keys: BenchKeys) -> int:
    from perf.catalogue import BENCHMARKS

    if keys.name == ALL:
        return _run_all(keys)
    if keys.name not in BENCHMARKS:
        raise ConfigError(
            f"there is no benchmark named `{keys.name}`",
            code="unknown_benchmark",
            remedy=f"Benchmarks: {', '.join(BENCHMARKS)}, and {ALL} for all of them.",
        )
    return _run_one(keys) if keys.against is None else _compare(keys, keys.against)


def _run_one(keys: BenchKeys) -> int:
    from perf.measure import circumstances
    from perf.results import keep

    began = time.time()
    about = circumstances()  # the machine's load without our own
    module = _module(keys.name)
    figures = module.run(keys.runs, keys) if hasattr(module, "BenchKeys") else module.run(keys.runs)
    own = {
        name: value for name, value in _own_keys(keys).items() if not isinstance(getattr(keys, name), Path)
    }
    settings = {"runs": keys.runs, **own}  # no places on this machine
    seconds = round(time.time() - began, 1)
    result = {"benchmark": keys.name, **about, "settings": settings, "seconds": seconds, "figures": figures}
    _print(result, keys.output)
    if keys.keep:
        keep(result)
    return ExitCode.COMPLETE


def _compare(keys: BenchKeys, other: Path) -> int:
    from rich.console import Console

    from perf.comparison import compare, table_of
    from perf.measure import circumstances

    if keys.keep:
        raise ConfigError("+keep and +against exclude each other", code="contradiction")
    found = compare(keys.name, _own_keys(keys), other, keys.runs)
    Console().print(table_of(found))
    if keys.output is not None:
        ratios = {ratio.figure: ratio._asdict() for ratio in found}
        result = {"benchmark": keys.name, "against": str(other), **circumstances(), "ratios": ratios}
        keys.output.write_text(json.dumps(result, indent=2) + "\n")
    return ExitCode.COMPLETE


def _run_all(keys: BenchKeys) -> int:
    """Run every benchmark in its own process. A failed benchmark does not stop the others."""
    from perf.catalogue import BENCHMARKS

    if keys.against is not None or keys.output is not None:
        raise ConfigError(f"+against and +json are for one benchmark, not for `{ALL}`", code="contradiction")
    failed = []
    for name, shown in BENCHMARKS.items():
        began = time.monotonic()
        _tell(f"{name}: {shown.summary}")
        kept = ["+keep=true"] if keys.keep else []
        command = [sys.executable, "-m", "perf", name, *shown.options, *kept]
        code = subprocess.run(
            command, stdout=subprocess.DEVNULL if keys.keep else None, check=False
        ).returncode
        _tell(f"{name}: {_ENDS.get(code, f'FAILED with exit code {code}')}, {time.monotonic() - began:.0f} s")
        failed += [name] if code not in _ENDS else []
    if failed:
        _tell(f"failed: {', '.join(failed)}")
    return ExitCode.FATAL if failed else ExitCode.COMPLETE


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"perf.{name}")


def _own_keys(keys: BenchKeys) -> dict[str, Any]:
    """Return the given keys of the benchmark itself."""
    return keys.model_dump(mode="json", exclude_unset=True, exclude=set(BenchKeys.model_fields))


def _print(result: dict[str, Any], output: Path | None) -> None:
    text = json.dumps(result, indent=2)
    print(text)
    if output is not None:
        output.write_text(text + "\n")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
