"""The draws that count after a kill.

A kill loses the rollouts in flight, and those are the long ones. Wrong answers are often longer than right ones, so new
attempts at the lost rollouts would exchange likely wrong values for new ones: with five kills of a run that had 16
rollouts in flight, an interval of 95 % covered the mean in 80 %. Therefore a lost rollout is never attempted again, and
its draw has any value that it may have had.

The interval has to allow for each of them, and most of the losses are among the last draws. So only a few count, and
the draws after the last of these do not. This end is chosen from the draws up to it, never from later ones: it is a
stopping time, and the draws that follow it are new.
"""

from __future__ import annotations

from collections.abc import Sequence

_ALLOWED = 0.1
"""The losses that count, times the aim. A run to the aim h has about 1 / h² draws, so they cost a tenth of h."""


def count_kept(lost: Sequence[int], drawn: int, half_width: float, *, earlier: int = 0) -> int:
    """Return how many of the `drawn` draws count.

    `lost` has the numbers of those that lost a rollout now, in order, and `earlier` is the number of losses of earlier
    kills. `half_width` is the aim on the scale from 0 to 1.
    """
    allowed = max(1, int(_ALLOWED / half_width) - earlier)
    return lost[allowed - 1] + 1 if len(lost) >= allowed else drawn
