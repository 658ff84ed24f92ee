"""A manual clock, and a transport with scripted replies."""

from __future__ import annotations

from typing import Any

from multidict import CIMultiDict

from nemo_gym.failures import TransportError
from nemo_gym.transport import Call, Reply


class Clock:
    """A clock that advances only in `sleep`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Peer:
    """A transport that returns or raises the entries of a list; the last one repeats."""

    def __init__(self, *plays: Any) -> None:
        self.plays = list(plays)
        self.calls: list[tuple[str, Call]] = []

    async def send(self, base_url: str, call: Call) -> Reply:
        self.calls.append((base_url, call))
        play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
        if isinstance(play, Exception):
            raise play
        assert isinstance(play, Reply)
        return play

    async def close(self) -> None:
        self.plays.clear()


def reply(status: int, body: bytes = b"{}", **headers: str) -> Reply:
    return Reply(
        status, CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()}), body
    )


def broken(code: str) -> TransportError:
    return TransportError(f"{code} happened", code=code, retryable=True)
