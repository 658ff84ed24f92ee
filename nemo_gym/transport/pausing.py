"""Pauses of runs that this process serves: their rollouts' clock stands still while a run is paused.

A run holds the clock for some seconds and repeats that while it is paused, so a run that was killed holds nothing.
The clock of a process is that of all its rollouts: the deadlines of other runs of the gym are longer by the pause.
"""

from __future__ import annotations

import asyncio

from nemo_gym.clock import pause

_holders: dict[str, asyncio.TimerHandle] = {}


def hold_clock(run: str, seconds: float) -> None:
    """Stop the clock of rollouts for `run`; after `seconds` without another call it runs again. 0 ends the pause."""
    handle = _holders.pop(run, None)
    if handle is not None:
        handle.cancel()
    if seconds > 0:
        pause.begin()
        _holders[run] = asyncio.get_running_loop().call_later(seconds, hold_clock, run, 0.0)
    elif not _holders:
        pause.end()
