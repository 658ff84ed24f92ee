"""The error of a task row that cannot be graded."""

from __future__ import annotations

from nemo_gym.failures import InputError

__all__ = ["invalid_row"]


def invalid_row(
    problem: str, *, param: str | None = None, remedy: str = "Correct it in the dataset."
) -> InputError:
    """Return the error of a row; `param` names the invalid field."""
    return InputError(
        f"The task row cannot be graded: {problem}.", code="invalid_row", param=param, remedy=remedy
    )
