"""Problems in user input, each with its location and a remedy, which are collected and then raised together.

A check does not raise. It adds a `Problem` to its `Problems` argument and continues, so that a user sees all problems
at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from nemo_gym.failures import ConfigError, GymError, append_remedy


@dataclass(frozen=True, slots=True)
class Location:
    """The place where a value is set."""

    source: str
    """A file as the user would write it, or `command line`, `initial configuration`, `default`."""
    line: int | None = None
    """Counted from 1; None if there are no lines."""
    column: int | None = None
    """Counted from 1."""
    text: str | None = None
    """The override as it was typed, with secrets hidden."""

    def __str__(self) -> str:
        if self.text is not None:
            return f"{self.source}: {self.text}"
        return ":".join(str(part) for part in (self.source, self.line, self.column) if part is not None)


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in user input."""

    where: Location | None
    message: str
    remedy: str | None = None

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        return f"{where}{append_remedy(self.message, self.remedy)}"


@dataclass(slots=True)
class Problems:
    """The problems and warnings of one check or load."""

    found: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    has_gaps: bool = False
    """True if a part of the configuration could not be read, so that missing keys may be in that part."""

    def add(self, where: Location | None, message: str, remedy: str | None = None) -> None:
        problem = Problem(where, message, remedy)
        if problem not in self.found:
            self.found.append(problem)

    def add_gap(self, where: Location | None, message: str, remedy: str | None = None) -> None:
        """Add a problem because of which a part of the configuration is not read."""
        self.has_gaps = True
        self.add(where, message, remedy)

    def add_absence(self, where: Location | None, message: str, remedy: str | None = None) -> None:
        """Add a problem about something missing, unless an unread part might contain it."""
        if not self.has_gaps:
            self.add(where, message, remedy)

    def warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    def raise_if_any(self) -> None:
        """Raise `ConfigErrors` with the problems found so far, if any."""
        if self.found:
            raise ConfigErrors(self.found)


class ConfigErrors(ConfigError):
    """All problems of the user's input."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in problems), code="invalid_config")

    def report(self) -> str:
        """Return the problems as text for users: numbered, with location and remedy on separate lines."""
        blocks = []
        for number, problem in enumerate(self.problems, 1):
            lines = [str(problem.where)] if problem.where else []
            lines.append(problem.message)
            if problem.remedy:
                lines.append(f"-> {problem.remedy}")
            text = "\n".join(line.rstrip() for line in lines).replace("\n", "\n   ")
            blocks.append(f"{number}. {text}" if len(self.problems) > 1 else text.replace("\n   ", "\n"))
        return "\n".join(blocks)


class InputChecks:
    """Checks that are all made, and whose errors are then raised together."""

    def __init__(self) -> None:
        self.errors: list[ConfigError] = []

    @contextmanager
    def check(self) -> Iterator[None]:
        """Keep a `ConfigError` of the block."""
        try:
            yield
        except ConfigError as error:
            self.errors.append(error)

    def raise_if_any(self) -> None:
        """Raise the only error as it is, or `ConfigErrors` with the problems of several ones."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise ConfigErrors([problem for error in self.errors for problem in list_problems(error)])


def list_problems(error: GymError) -> list[Problem]:
    """Return the problems of an error: its own, or all of `ConfigErrors`."""
    if isinstance(error, ConfigErrors):
        return error.problems
    return [Problem(None, error.failure.message, error.failure.remedy)]


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return `Did you mean 'x'?` for the known words that resemble `word`, or None.

    Of words that do not resemble it, those that begin it, or that it begins, are taken: `input` and `input_file`.
    """
    words = sorted(set(known))
    near = difflib.get_close_matches(word, words, n=3, cutoff=0.7) or [
        each for each in words if word.startswith(f"{each}_") or each.startswith(f"{word}_")
    ]
    if not near:
        return None
    return f"Did you mean {' or '.join(repr(match) for match in near[:3])}?"
