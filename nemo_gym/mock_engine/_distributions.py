"""Random amounts as text: `2`, `uniform:1:3`, `lognormal:2:0.5`, `exponential:2`.

A comma may replace the second colon; a shell needs quotes around it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class Shape(StrEnum):
    CONSTANT = "constant"
    UNIFORM = "uniform"
    LOGNORMAL = "lognormal"
    EXPONENTIAL = "exponential"


_PARAMETERS = {Shape.CONSTANT: 1, Shape.UNIFORM: 2, Shape.LOGNORMAL: 2, Shape.EXPONENTIAL: 1}
"""The number of parameters of each shape."""
SYNTAX = "a number, uniform:LOW:HIGH, lognormal:MEAN:SIGMA or exponential:MEAN"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of non-negative amounts.

    The parameters of `lognormal` are its own mean and sigma, the standard deviation of the logarithm:
    mu = ln(mean) - sigma^2 / 2.
    """

    shape: Shape
    first: float
    second: float = 0.0

    def draw(self, rng: Random) -> float:
        match self.shape:
            case Shape.CONSTANT:
                return self.first
            case Shape.UNIFORM:
                return rng.uniform(self.first, self.second)
            case Shape.EXPONENTIAL:
                return rng.expovariate(1 / self.first) if self.first else 0.0
            case Shape.LOGNORMAL:
                return rng.lognormvariate(math.log(self.first) - self.second**2 / 2, self.second)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let fields of this type take text or a plain number, and dump text."""
        return core_schema.no_info_plain_validator_function(
            parse_distribution, serialization=core_schema.to_string_ser_schema()
        )

    def __str__(self) -> str:
        if self.shape == Shape.CONSTANT:
            return f"{self.first:g}"
        values = (self.first, self.second)[: _PARAMETERS[self.shape]]
        return f"{self.shape}:{':'.join(f'{value:g}' for value in values)}"


def parse_distribution(text: object) -> Distribution:
    """Parse `text` or a plain number. Raises ValueError that shows the syntax."""
    if isinstance(text, Distribution):
        return text
    if isinstance(text, bool) or not isinstance(text, int | float | str):
        raise ValueError(f"{text!r} is not {SYNTAX}")
    name, separator, numbers = str(text).partition(":")
    if not separator:
        name, numbers = Shape.CONSTANT, str(text)
    try:
        shape, values = (
            Shape(name.strip()),
            [float(number) for number in numbers.replace(",", ":").split(":")],
        )
    except ValueError as error:
        raise ValueError(f"{text!r} is not {SYNTAX}") from error
    if len(values) != _PARAMETERS[shape] or not all(0 <= value < math.inf for value in values):
        raise ValueError(f"{text!r} is not {SYNTAX}, with numbers that are not negative")
    if shape == Shape.UNIFORM and values[0] > values[1]:
        raise ValueError(f"{text!r} starts above its end")
    if shape == Shape.LOGNORMAL and values[0] == 0:
        raise ValueError(f"{text!r}: the mean of a lognormal distribution is above 0")
    return Distribution(shape, *values)
