"""Parts of the scripts that make datasets (`prepare.py` beside a server): options, rows read, rows written, errors.

    def main(arguments: Sequence[str] | None = None) -> None:
        options = generator_options(__doc__, arguments)
        write_rows(made_tasks(make_task, options), options.output)

A script that fails leaves its output as it was, says why in one line, with file and line number where a row is at
fault, and exits with 2.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nemo_gym.datasets.checking import read_rows
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.rollouts.output.atomic import replacing

Row = dict[str, Any]
BAD_INPUT = 2


def new_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help shows the docstring of a script as it is written."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_generation(parser: argparse.ArgumentParser, *, size: int = 5) -> None:
    """`--size` and `--seed`."""
    parser.add_argument("--size", type=int, default=size, help=f"how many tasks to make; {size} unless given")
    parser.add_argument("--seed", type=int, default=0, help="makes the same tasks again; 0 unless given")


def generator_options(
    description: str | None, arguments: Sequence[str] | None, *, size: int = 5
) -> argparse.Namespace:
    """`--size`, `--seed` and `--output`."""
    parser = new_parser(description)
    add_generation(parser, size=size)
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args(arguments)


def converter_options(description: str | None, arguments: Sequence[str] | None) -> argparse.Namespace:
    """`--input` and `--output`."""
    parser = new_parser(description)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args(arguments)


def made_tasks(make_task: Callable[[int, random.Random], Row], options: argparse.Namespace) -> Iterator[Row]:
    """The tasks of `options.size` calls with one source of randomness, seeded with `options.seed`."""
    rng = random.Random(options.seed)
    return (make_task(index, rng) for index in range(options.size))


def converted(path: Path, convert: Callable[[Row], Row]) -> Iterator[Row]:
    """The rows of a file, each converted. Raises `ConfigError` with the line where `convert` has refused a row, by a
    `ValueError` or, for a field that the row lacks, a `KeyError`."""
    for number, row in read_rows(path):
        try:
            yield convert(row)
        except KeyError as error:
            raise bad_row(f"{path}:{number}: there is no field {error}") from error
        except ValueError as error:
            raise bad_row(f"{path}:{number}: {error}") from error


def bad_row(message: str) -> ConfigError:
    return ConfigError(message, code="bad_row")


def write_rows(rows: Iterable[Row], output: Path, *, noun: str = "tasks") -> None:
    """Write `rows` to `output`, compressed where its name says so, and print how many there are."""
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
