"""An open rollout session, for synchronous code."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any

from nemo_gym.client._group import RolloutGroup
from nemo_gym.client._session import AsyncRolloutSession
from nemo_gym.client._session_connection import EngineTreatment
from nemo_gym.processes.event_loop_thread import EventLoopThread
from nemo_gym.rows.forms import AnyRow


class BlockingRolloutSession:
    """The calls of `AsyncRolloutSession`, in an event loop of its own. Several threads may use it."""

    def __init__(self, loop: EventLoopThread, session: AsyncRolloutSession) -> None:
        self._loop = loop
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def version(self) -> int:
        """The version of the policy that the session was told last."""
        return self._session.version

    def __iter__(self) -> Iterator[RolloutGroup]:
        return self.groups()

    def submit(
        self, rows: Iterable[AnyRow], *, keys: Sequence[str] | None = None, round: int = 0, ends: bool = False
    ) -> list[str]:
        """Add tasks, and return their keys. As `AsyncRolloutSession.submit`."""
        return self._loop.run(self._session.submit(rows, keys=keys, round=round, ends=ends))

    def groups(
        self, *, cancellations: bool = False, takeover: bool = False
    ) -> Generator[RolloutGroup, None, None]:
        """Yield groups as they are delivered. As `AsyncRolloutSession.groups`."""
        yield from self._loop.iterate(self._session.groups(cancellations=cancellations, takeover=takeover))

    def consumed(self, *groups: RolloutGroup, version: int | None = None) -> None:
        """Tell that groups took part in a step of the trainer."""
        self._loop.run(self._session.consumed(*groups, version=version))

    def set_version(self, version: int, *, reset: bool = False) -> None:
        """Tell the session of a version of the policy, whose weights the engine has. `reset` lets it go back."""
        self._loop.run(self._session.set_version(version, reset=reset))

    @contextmanager
    def update_policy(
        self,
        version: int,
        *,
        server: str = "policy_model",
        engine: EngineTreatment = "abort",
        drop_in_flight: bool = False,
        reload_weights: bool = False,
        reset: bool = False,
    ) -> Iterator[None]:
        """Pause while the block gives the engines new weights. As `AsyncRolloutSession.update_policy`."""
        updating = self._session.update_policy(
            version,
            server=server,
            engine=engine,
            drop_in_flight=drop_in_flight,
            reload_weights=reload_weights,
            reset=reset,
        )
        self._loop.run(_enter(updating))
        try:
            yield
        except BaseException as error:
            self._loop.run(_leave(updating, error))
            raise
        self._loop.run(_leave(updating, None))

    def pause(self) -> None:
        """Start no rollout until `resume`; those in flight go on."""
        self._loop.run(self._session.pause())

    def resume(self) -> None:
        self._loop.run(self._session.resume())

    def drain(self) -> None:
        """Start nothing more; the groups end with the rollouts in flight."""
        self._loop.run(self._session.drain())

    def cancel(self, key: str) -> None:
        """Cancel the group of a key, which comes out as a cancellation."""
        self._loop.run(self._session.cancel(key))

    def requeue(self, key: str) -> None:
        """Attempt the task of a key again, in a later round. A group of it that is not out yet is cancelled."""
        self._loop.run(self._session.requeue(key))

    def set(self, **tuning: Any) -> None:
        """Change `num_samples_in_parallel`, `max_attempts` or `rollout_timeout_s`."""
        self._loop.run(self._session.set(**tuning))

    def describe(self) -> dict[str, Any]:
        """Return its counters, and what its policies cost."""
        return self._loop.run(self._session.describe())

    def state(self, *, rows: bool = False) -> dict[str, Any]:
        """Return its state as JSON, for a checkpoint. As `AsyncRolloutSession.state`."""
        return self._loop.run(self._session.state(rows=rows))

    def detach(self) -> None:
        """Leave the session open, for another process or for later."""
        self._loop.run(self._session.detach())


async def _enter(block: AbstractAsyncContextManager[None]) -> None:
    await block.__aenter__()


async def _leave(block: AbstractAsyncContextManager[None], error: BaseException | None) -> None:
    if error is None:
        await block.__aexit__(None, None, None)
        return
    with suppress(type(error)):  # the caller raises it
        await block.__aexit__(type(error), error, error.__traceback__)
