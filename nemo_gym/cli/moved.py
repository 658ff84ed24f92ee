"""Commands that were moved out of the package. Their old names print the new command, and exit with 2.

This module has no heavy imports, because every command imports it through the package.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

MOVED: Mapping[str, str] = {"bench": "python -m perf", "simulate": "python -m simulation"}
"""The new command of each verb, for a checkout of the repository."""


def say_where(verb: str) -> NoReturn:
    print(f"ng_{verb} is now `{MOVED[verb]}`, in a checkout of the repository", file=sys.stderr)
    sys.exit(2)


def bench(argv: Sequence[str] | None = None) -> NoReturn:
    say_where("bench")


def simulate(argv: Sequence[str] | None = None) -> NoReturn:
    say_where("simulate")
