"""The prompt of the next turn keeps the ids that were sampled."""

from __future__ import annotations

import pytest

from nemo_gym.tokens.splicing import splice

END, NEWLINE = 9, 8


@pytest.mark.parametrize(
    ("seen", "closed", "rendered", "expected"),
    [
        # The answer was tokenized anew: [5, 6] for what was sampled as [7].
        ([1, END, 7, END], [1, END, 5, 6, END], [1, END, 5, 6, END, 2, END, 3], [1, END, 7, END, 2, END, 3]),
        # A newline after each turn, which the policy doesn't write.
        (
            [1, END, NEWLINE, 7, END],
            [1, END, NEWLINE, 5, END, NEWLINE],
            [1, END, NEWLINE, 5, END, NEWLINE, 2, END, NEWLINE, 3],
            [1, END, NEWLINE, 7, END, NEWLINE, 2, END, NEWLINE, 3],
        ),
        # The template drops what stood in the earlier answer once another turn follows.
        ([1, END, 4, 7, END], [1, END, 4, 7, END], [1, END, 7, END, 2, 3], [1, END, 4, 7, END, 2, 3]),
        # The last turn ends with another token than the policy ended it with.
        ([1, END, 7, NEWLINE], [1, END, 7, END], [1, END, 7, END, 2, 3], None),
        # The template renders fewer turns than there were.
        ([1, END, 7, END], [1, END, 7, END], [7, END, 2, 3], None),
        ([], [1, END], [1, END, 3], None),
    ],
)
def test_splicing(
    seen: list[int], closed: list[int], rendered: list[int], expected: list[int] | None
) -> None:
    assert splice(seen, closed, rendered) == expected
