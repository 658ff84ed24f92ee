"""The error of a task row that cannot be graded."""

from __future__ import annotations

from nemo_gym.failures import InputError

__all__ = ["invalid_row"]


def invalid_row(
    problem: str, *, param: str | None = None, remedy: str = "Correct it in the dataset."
) -> InputError:
    """Return the error of a row, to be raised; `param` names the invalid field."""
    message = f"The task row cannot be graded: {problem.rstrip(' .')}."
    return InputError(message, code="invalid_row", param=param, remedy=remedy)
