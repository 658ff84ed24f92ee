"""How much is tried: `make test` takes a sample of the longest lists of cases, `make chaos` the whole."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

IS_WHOLE = "NEMO_GYM_TEST_WHOLE" in os.environ


def one_in(step: int, cases: Iterable[T]) -> list[T]:
    """Return the cases at multiples of `step`, or all of them if the whole is tried."""
    return list(cases)[:: 1 if IS_WHOLE else step]
