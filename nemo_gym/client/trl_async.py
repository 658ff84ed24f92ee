"""A rollout worker for TRL's `AsyncGRPOTrainer`, which takes whole groups of a rollout session.

    worker = GymRolloutWorker(Gym.connect(), rows, group_size=8, groups_per_step=4, max_staleness=4)
    AsyncGRPOTrainer(..., rollout_worker=worker)

The session runs in a thread of the worker. The advantage of a rollout is its reward minus the mean of its group, in
which a failed rollout has no part. Each token sequence of a rollout is a row; the rows of a group share `group_id`.
A group is consumed when the trainer has taken all of its rows, so a trainer that is killed before gets it again.

TRL stamps a row with one version: here the oldest that sampled in it. TRL drops a row above its `max_staleness`.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from statistics import fmean, pstdev
from typing import Any, Literal, NamedTuple, Unpack

from nemo_gym.client._connecting import GymAddress
from nemo_gym.client._group import RolloutGroup
from nemo_gym.client._gym import AsyncGym, Gym
from nemo_gym.client._rollout import Rollout
from nemo_gym.client._session import AsyncRolloutSession, RolloutSessionOptions
from nemo_gym.client.trl import build_tamperable_error
from nemo_gym.failures import GymError, TransportError
from nemo_gym.rows.forms import AnyRow

__all__ = ["GymRolloutWorker"]

_EVERY_S = 0.02
_EPSILON = 1e-4
"""Added to the standard deviation of a group's rewards, as TRL does."""


class _Queued(NamedTuple):
    """A group whose rows are in the trainer's queue."""

    group: RolloutGroup
    end: int
    """The number of rows put so far, its own included."""


class RowQueue(queue.Queue[Any]):
    """The trainer's queue. It counts the rows that were taken."""

    taken = 0

    def _get(self) -> Any:
        self.taken += 1
        return super()._get()


class GymRolloutWorker:
    """Gives an `AsyncGRPOTrainer` the groups of a gym (its `RolloutWorkerProtocol`).

    Args:
        gym: a running gym.
        rows: task rows, which are attempted in rounds without end.
        max_staleness: that of the trainer. A group above it is not delivered.
        scale: `group` divides advantages by the standard deviation of the group's rewards.
        queue_size: rows that may wait for the trainer.
        token_budget: that of the trainer. Longer rows, which it would drop, are left out and counted.
        server: the model server whose version the trainer sets.
        allow_tamperable: accept rewards that an answer could have forged.
        state: that of an earlier worker (`state()`), from which this one goes on.
        options: those of a session. `group_size` is 8 by default. `groups_per_step`, the groups that the trainer takes
            between two versions, bounds the groups in flight.
    """

    def __init__(
        self,
        gym: Gym,
        rows: Sequence[AnyRow],
        *,
        max_staleness: int = 4,
        scale: Literal["group", "none"] = "group",
        queue_size: int = 1024,
        token_budget: int | None = None,
        server: str = "policy_model",
        allow_tamperable: bool = False,
        state: Mapping[str, Any] | None = None,
        **options: Unpack[RolloutSessionOptions],
    ) -> None:
        self.rollout_buffer: RowQueue = RowQueue(queue_size)
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue()
        self._address: GymAddress = gym.address
        self._rows = list(rows)
        self._options = options
        options.setdefault("staleness", {"bound": max_staleness, "of": "group", "then": "drop"})
        self._scale = scale
        self._token_budget = token_budget
        self._server = server
        self._allow_tamperable = allow_tamperable
        self._state = state
        self._version: int | None = None
        self._put = 0
        """Rows that were put into the queue."""
        self._queued: deque[_Queued] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: AsyncRolloutSession | None = None
        self._opened = threading.Event()
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gym rollout worker", daemon=True)
        self._produced_at = time.monotonic()

    # --- The trainer's calls ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to produce rows."""
        self._produced_at = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End the session; everything in flight is cancelled, and rows that were not taken are discarded."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def update_model_version(self, model_version: int) -> None:
        """Tell model server and session of a version. Before `start` it is the first one."""
        self._version = model_version
        if not self._thread.is_alive():
            return
        while not self._opened.wait(_EVERY_S):  # it begins with this version, or has failed
            if not self._thread.is_alive():
                return
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._set_version(), self._loop).result()

    def check_health(self, stale_after_s: float) -> None:
        """Raise the error that has ended the worker, or `TransportError` if it produces nothing for too long."""
        if self._failure is not None:
            raise self._failure
        idle_s = time.monotonic() - self._produced_at
        if idle_s > stale_after_s and self.rollout_buffer.empty():
            raise TransportError(
                f"no group has come for {idle_s:.0f} s",
                code="no_groups",
                peer=self._address.url,
                remedy="`gym ctl status` shows what the session waits for, and the servers' logs show failures.",
            )

    def state(self) -> dict[str, Any]:
        """Return the session's state for a checkpoint; groups whose rows were not all taken are attempted again."""
        if self._loop is None or self._session is None:
            return dict(self._state or {})
        return asyncio.run_coroutine_threadsafe(self._session.state(), self._loop).result()

    # --- The worker's thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._produce())
        except BaseException as error:  # noqa: BLE001 - `check_health` raises it in the trainer's thread
            self._failure = error

    async def _produce(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncGym(self._address).session(state=self._state, **self._options) as session:
            self._session = session
            await self._set_version()
            self._opened.set()
            try:
                async with asyncio.TaskGroup() as tasks:
                    working = [
                        tasks.create_task(work)
                        for work in (self._feed(session), self._take(session), self._acknowledge(session))
                    ]
                    while not self._stopping.is_set():  # noqa: ASYNC110 - another thread sets it
                        await asyncio.sleep(_EVERY_S)
                    for task in working:
                        task.cancel()
            except* GymError as errors:
                raise errors.exceptions[0] from None

    async def _set_version(self) -> None:
        version, session = self._version, self._session
        if version is None or session is None:
            return
        async for is_last in session._connection.attempts():
            try:
                await AsyncGym(self._address).update_policy(version, server=self._server)
                break
            except TransportError:  # the gym starts again, or is gone
                if is_last:
                    raise
        if version != session.version:
            await session.set_version(version, reset=version < session.version)

    async def _feed(self, session: AsyncRolloutSession) -> None:
        """Submit the rows in rounds; `submit` waits while the session's queue is full."""
        finished = max((known[1] for known in (self._state or {}).get("known", {}).values()), default=0)
        keys = [f"row {number}" for number in range(len(self._rows))]
        for number in range(finished, 1 << 31):
            await session.submit(self._rows, keys=keys, round=number)

    async def _take(self, session: AsyncRolloutSession) -> None:
        async for group in session:
            for row in self._build_rows(group):
                await self._put_row(row)
            self._produced_at = time.monotonic()
            self._queued.append(_Queued(group, self._put))
            spread = {"gym/staleness": float(session.version - group.oldest)}
            self.metrics_queue.put({**spread, "gym/failed_rollouts": float(len(group.failed))})

    async def _put_row(self, row: Any) -> None:
        """Put a row without blocking the event loop, which a full queue would stop."""
        while True:
            try:
                self.rollout_buffer.put_nowait(row)
            except queue.Full:
                await asyncio.sleep(_EVERY_S)
            else:
                self._put += 1
                return

    async def _acknowledge(self, session: AsyncRolloutSession) -> None:
        while True:
            consumed = []
            while self._queued and self._queued[0].end <= self.rollout_buffer.taken:
                consumed.append(self._queued.popleft().group)
            if consumed:
                await session.consumed(*consumed)
            await asyncio.sleep(_EVERY_S)

    # --- Rows ---------------------------------------------------------------------------------------------------

    def _build_rows(self, group: RolloutGroup) -> Iterator[Any]:
        """Yield the rows of a group: one for each token sequence of each rollout."""
        advantages = compute_advantages(group.rewards, scale=self._scale)
        for rollout, advantage, versions in zip(group.rollouts, advantages, group.versions, strict=True):
            if rollout.is_tamperable and not self._allow_tamperable:
                raise build_tamperable_error(rollout)
            if group.is_trained(rollout):
                yield from self._build_rollout_rows(group, rollout, advantage, versions.oldest)

    def _build_rollout_rows(
        self, group: RolloutGroup, rollout: Rollout, advantage: float, oldest: int
    ) -> Iterator[Any]:
        import numpy

        sample = import_module("trl.experimental.async_grpo.async_rollout_worker").RolloutSample
        for segment in group.segments(rollout):
            if not segment.sampled:
                continue
            if self._token_budget is not None and len(segment.token_ids) > self._token_budget:
                self.metrics_queue.put({"gym/rows_over_token_budget": 1.0})
                continue
            yield sample(
                prompt=[{"role": "user", "content": group.key}],
                completion=[{"role": "assistant", "content": read_text(rollout)}],
                input_ids=numpy.asarray(segment.token_ids, dtype=numpy.int64),
                completion_mask=numpy.asarray(segment.loss_mask, dtype=numpy.int64),
                old_log_probs=numpy.asarray([each or 0.0 for each in segment.logprobs], dtype=numpy.float32),
                advantage=advantage,
                model_version=oldest,
                group_id=group.number,
                metrics={"gym/reward": float(rollout.reward or 0.0)},
                enqueued_at=time.time(),
            )


def compute_advantages(rewards: Sequence[float], *, scale: Literal["group", "none"]) -> list[float]:
    """Return each reward minus their mean; `group` divides by their standard deviation (GRPO, Shao et al. 2024)."""
    mean = fmean(rewards)
    divisor = pstdev(rewards) + _EPSILON if scale == "group" else 1.0
    return [(reward - mean) / divisor for reward in rewards]


def read_text(rollout: Rollout) -> str:
    """Return the text of a rollout's messages."""
    return "".join(
        part.get("text") or ""
        for item in rollout.response.get("output", ())
        if item.get("type") == "message"
        for part in item.get("content") or ()
    )
