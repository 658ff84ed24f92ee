"""Functions for scripts that create datasets (`prepare.py` of a server): options, reading, writing, errors.

    def main(arguments: Sequence[str] | None = None) -> None:
        options = generator_options(__doc__, arguments)
        write_rows(make_tasks(make_task, options), options.output)

A script that fails does not change its output. It prints the reason in one line, with file and line number of a bad
row, and exits with 2.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nemo_gym.datasets.checking import read_rows
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.rollouts.output.atomic import replacing

BAD_INPUT = 2


def new_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help prints the docstring of a script unchanged."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_generation(parser: argparse.ArgumentParser, *, size: int = 5) -> None:
    """Add `--size` and `--seed`."""
    parser.add_argument("--size", type=int, default=size, help=f"number of tasks; by default {size}")
    parser.add_argument("--seed", type=int, default=0, help="seed of the tasks; by default 0")


def generator_options(
    description: str | None, arguments: Sequence[str] | None, *, size: int = 5
) -> argparse.Namespace:
    """Parse `--size`, `--seed` and `--output`."""
    parser = new_parser(description)
    add_generation(parser, size=size)
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args(arguments)


def converter_options(description: str | None, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse `--input` and `--output`."""
    parser = new_parser(description)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args(arguments)


def make_tasks(
    make_task: Callable[[int, random.Random], Mapping[str, Any]], options: argparse.Namespace
) -> Iterator[Mapping[str, Any]]:
    """Yield `options.size` tasks, made with one random generator seeded with `options.seed`."""
    rng = random.Random(options.seed)
    return (make_task(index, rng) for index in range(options.size))


def convert_rows(
    path: Path, convert: Callable[[dict[str, Any]], Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """Yield the converted rows of a file.

    Raises `ConfigError` with the line number if `convert` raises `ValueError`, or `KeyError` for a missing field.
    """
    for number, row in read_rows(path):
        try:
            yield convert(row)
        except KeyError as error:
            raise bad_row(f"{path}:{number}: there is no field {error}") from error
        except ValueError as error:
            raise bad_row(f"{path}:{number}: {error}") from error


def bad_row(message: str) -> ConfigError:
    return ConfigError(message, code="bad_row")


def write_rows(rows: Iterable[Mapping[str, Any]], output: Path, *, noun: str = "tasks") -> None:
    """Write `rows` to `output`, compressed according to its name, and print their number."""
    count = 0
    try:
        with replacing(output) as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                count += 1
    except GymError as error:
        _fail(error)
    print(f"{count} {noun} in {output}")


def _fail(error: GymError) -> NoReturn:
    failure = error.failure
    text = "\n-> ".join(part for part in (failure.message, failure.remedy) if part)
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr)
    sys.exit(BAD_INPUT)
