"""Evaluation of interpolated values: each once, and with a bound on what they make together.

OmegaConf evaluates a value again for every reference to it, so a few lines of `a: ${b}${b}` take forever. Here every
interpolated value is a placeholder for OmegaConf: it returns the value if that is known, and otherwise notes that it is
needed first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from nemo_gym.config.tree import Path

MAX_SIZE = 16 << 20
"""Characters that all interpolations make together. A value of a list or mapping counts as `_VALUE_SIZE` more."""
_VALUE_SIZE = 160
"""OmegaConf takes as long for one as for so many characters, and longer."""
_WEIGHTS = {"oc.decode": 400, "oc.create": 20}
"""A character that these resolvers convert takes as long as so many others."""
_MAX_ROUNDS = 100
"""Evaluations of one value. Each one but the last finds others that are to be evaluated first."""
_PLACEHOLDER = "nemo_gym_placeholder"
_evaluation: ContextVar[InterpolatedValues] = ContextVar("_evaluation")


class EvaluationError(Exception):
    """An interpolated value cannot be evaluated."""


class TooLargeError(EvaluationError):
    """The interpolations make too much. `path` is that of the value that passed the bound."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"interpolations make more than {MAX_SIZE >> 20} MiB")
        self.path = path


class InterpolatedValues:
    """Evaluates values of plain data. `paths` are those of the interpolated ones."""

    def __init__(self, data: Any, paths: Iterable[Path]) -> None:
        from omegaconf import OmegaConf

        OmegaConf.register_new_resolver(_PLACEHOLDER, _resolve_placeholder, replace=True)
        self._paths = list(paths)
        self._numbers = {path: number for number, path in enumerate(self._paths)}
        self._longest = max(map(len, _texts_in(data)), default=0)
        texts = {path: _placeholder(number) for path, number in self._numbers.items()}
        self._texts = [str(_value_at(data, path)) for path in self._paths]
        self._config = OmegaConf.create(_replaced(data, texts))
        self._values: dict[int, Any] = {}
        self._failures: dict[int, Exception] = {}
        self._asked: list[int] = []
        self._size = 0

    def value_at(self, path: Path) -> Any:
        """Return the value at the path of an interpolated one. Raises `EvaluationError` or an error of OmegaConf."""
        wanted = self._numbers[path]
        opened: dict[int, int] = {wanted: 0}
        """The values that wait for others, the last one first, with their rounds."""
        while opened:
            number = next(reversed(opened))
            if number not in self._values and number not in self._failures:
                opened[number] += 1
                self._asked = []
                self._try(number)
                if self._asked and (failure := self._find_failure(opened)) is not None:
                    self._failures[number] = failure
                elif self._asked:
                    opened |= dict.fromkeys(self._asked, 0)
                    continue
            del opened[number]
        if wanted in self._failures:
            raise self._failures[wanted]
        return self._values[wanted]

    def _find_failure(self, opened: Mapping[int, int]) -> Exception | None:
        """Return why the last of `opened` can't be evaluated: it asked for one that failed, or that waits for it."""
        failed = next((each for each in self._asked if each in self._failures), None)
        if failed is not None:
            return self._failures[failed]
        if any(each in opened for each in self._asked):
            return EvaluationError("it refers to itself")
        if opened[next(reversed(opened))] >= _MAX_ROUNDS:
            return EvaluationError(f"it needs more than {_MAX_ROUNDS} others, one after another")
        return None

    def _try(self, number: int) -> None:
        """Note the value, or the failure, of an interpolated value, unless others are asked for."""
        from omegaconf.errors import OmegaConfBaseException

        path = self._paths[number]
        token = _evaluation.set(self)
        try:
            value = self._evaluate(path, self._texts[number])
            size = _measure(value)
            self._longest = max(self._longest, size)
            self._size += size
            if self._size > MAX_SIZE:
                raise TooLargeError(path)
            if not self._asked:
                self._values[number] = value
        except (OmegaConfBaseException, EvaluationError) as error:
            if not self._asked or isinstance(error, TooLargeError):
                self._failures[number] = error
                self._asked = []
        except RecursionError:
            self._failures[number] = EvaluationError("its value is nested too deeply")
            self._asked = []
        finally:
            _evaluation.reset(token)

    def _evaluate(self, path: Path, text: str) -> Any:
        from omegaconf import Container, OmegaConf

        weight = max((weight for name, weight in _WEIGHTS.items() if name in text), default=1)
        if text.count("${") * self._longest * weight > 4 * MAX_SIZE:
            raise TooLargeError(path)
        parent = self._config
        for part in path[:-1]:
            parent = parent[part]
        own = _placeholder(self._numbers[path])
        try:
            parent[path[-1]] = text
            value = parent[path[-1]]
        finally:
            parent[path[-1]] = own  # so that a list or mapping that holds this value asks for it
        if isinstance(value, Container):
            value = OmegaConf.to_container(value, resolve=True)
        return value

    def answer(self, number: int) -> Any:
        """Return a value that is evaluated; note another one as asked for, and return any text."""
        if number in self._values:
            return self._values[number]
        if 0 <= number < len(self._paths):
            self._asked.append(number)
        return "pending"


def _resolve_placeholder(number: int) -> Any:
    return _evaluation.get().answer(number)


def _placeholder(number: int) -> str:
    return f"${{{_PLACEHOLDER}:{number}}}"


def _measure(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_VALUE_SIZE + len(str(key)) + _measure(below) for key, below in value.items())
    if isinstance(value, list):
        return sum(_VALUE_SIZE + _measure(item) for item in value)
    return len(value) if isinstance(value, str) else _VALUE_SIZE


def _texts_in(data: Any) -> Iterable[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping | list):
        for below in data.values() if isinstance(data, Mapping) else data:
            yield from _texts_in(below)


def _value_at(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def _replaced(data: Any, texts: Mapping[Path, str], path: Path = ()) -> Any:
    """Return a copy of `data` with other values at the paths of `texts`."""
    if isinstance(data, Mapping):
        return {key: _replaced(below, texts, (*path, key)) for key, below in data.items()}
    if isinstance(data, list):
        return [_replaced(item, texts, (*path, index)) for index, item in enumerate(data)]
    return texts.get(path, data)
