"""A rollout that was opened for an agent which makes its own model calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from nemo_gym.failures import GymError
from nemo_gym.processes.event_loop_thread import run_blocking

ROLLOUT_RECORDS = "/ng-rollouts"


class RolloutLimits(TypedDict, total=False):
    """The options of an opened rollout."""

    sampling: Mapping[str, float]
    """Sampling fields that replace those of every call, such as `temperature`."""
    model: str
    """The model's name in every call."""
    max_calls: int
    max_sampled_tokens: int
    expires_s: float
    """Seconds until the key expires."""


@dataclass(frozen=True, slots=True)
class AsyncOpenRollout:
    """An opened rollout, for event loops."""

    rollout_id: str
    key: str = field(repr=False)
    """The API key of its calls."""
    base_url: str
    """The base URL of its calls; ends in `/v1`."""
    _ask: Callable[..., Awaitable[Any]] = field(repr=False)

    async def read(self) -> dict[str, Any]:
        """Return its record: `calls`, `tree`, `segments`, and the counts `masked` and `dropped_fields`."""
        record: dict[str, Any] = await self._ask("GET", self._path)
        return record

    async def seal(self) -> None:
        """Refuse later calls, and cancel those in flight. A deleted rollout is left as it is."""
        try:
            await self._ask("POST", f"{self._path}/seal", {})
        except GymError as error:
            if error.failure.code != "rollout_unknown":
                raise

    async def delete(self) -> None:
        """Remove its record."""
        await self._ask("DELETE", self._path)

    @property
    def _path(self) -> str:
        return f"{ROLLOUT_RECORDS}/{self.rollout_id}"


class OpenRollout:
    """An opened rollout."""

    def __init__(self, rollout: AsyncOpenRollout) -> None:
        self._rollout = rollout
        self.rollout_id = rollout.rollout_id
        self.key = rollout.key
        """The API key of its calls."""
        self.base_url = rollout.base_url
        """The base URL of its calls; ends in `/v1`."""

    def read(self) -> dict[str, Any]:
        """Return its record, as `AsyncOpenRollout.read`. It can be read after the end of the block, too."""
        return run_blocking("rollout", self._rollout.read())

    def seal(self) -> None:
        """Refuse later calls, and cancel those in flight."""
        run_blocking("rollout", self._rollout.seal())

    def delete(self) -> None:
        """Remove its record."""
        run_blocking("rollout", self._rollout.delete())
