"""The reasons of failed solutions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nemo_gym.json_objects import replace_surrogates


class Reason(StrEnum):
    """The reason for a solution's failure."""

    DOES_NOT_COMPILE = "does_not_compile"
    UNDEFINED_FUNCTION = "undefined_function"
    RAISED = "raised"
    WRONG_ANSWER = "wrong_answer"
    TESTS_FAILED = "tests_failed"
    TIMED_OUT = "timed_out"
    """It used more CPU time than it may."""
    BLOCKED = "blocked"
    """It slept or waited until its time was over."""
    OUTPUT_EXCEEDED = "output_exceeded"
    MEMORY_EXCEEDED = "memory_exceeded"
    PROCESS_ENDED = "process_ended"
    """The solution ended its own process (`os._exit`, a signal) before it answered."""
    NOT_PLAIN_DATA = "not_plain_data"
    """The solution returned an object of some class instead of plain data."""
    BROKEN_PROTOCOL = "broken_protocol"
    """The solution wrote to the pipe between the harness and the gym."""


@dataclass(eq=False)
class SolutionFailed(Exception):
    """A failure of the solution, raised at any point of its run."""

    reason: Reason
    detail: str = ""
    """Text that the solution may have written. It is shown in rows, so its surrogates are replaced."""

    def __post_init__(self) -> None:
        self.detail = replace_surrogates(self.detail)
