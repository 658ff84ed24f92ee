"""The policy's version, and the calls in flight when it changes.

A trainer posts each new version to the model server. Every call records the version at its start, and the version at
its end if that differs. Calls of an old version can be dropped: they fail with a retryable failure.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from nemo_gym.config import bootstrap
from nemo_gym.engines.engine import EngineRefused, UpstreamEngine
from nemo_gym.engines.pausing import CallGate, PausedServer, ServerPausing
from nemo_gym.engines.record.tape import current_tape
from nemo_gym.failures import EngineError
from nemo_gym.tokens.records import PolicyVersion
from nemo_gym.transport import Deadline, Reply
from nemo_gym.transport.moving_caller import own_name
from nemo_gym.transport.moving_directory import MovingDirectory
from nemo_gym.transport.server_client import ServerClient

__all__ = ["PolicyMember", "PolicyUpdate", "ServedPolicy", "change_everywhere", "reload_weights"]

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_JOIN_EVERY_S = 1.0
_ANSWER_WITHIN_S = 30.0


class PolicyUpdate(BaseModel):
    """The body of `POST /policy_version`."""

    model_config = ConfigDict(extra="forbid")

    version: Annotated[StrictInt, Field(ge=-(1 << 63), lt=1 << 63)] | str
    drop_in_flight: bool = Field(False, description="Drop calls that started with an earlier version.")
    reload_weights: bool = Field(
        False,
        description="Before the change, reload the weights in every replica of the engine and reset its prefix cache.",
    )
    everywhere: bool = Field(
        True, description="Change all processes of the server, not only the one that gets the request."
    )


class ServedPolicy:
    """The current version, and the calls in flight."""

    def __init__(self) -> None:
        self.version: PolicyVersion | None = None
        """None until the first update."""
        self.gate = CallGate()
        self._working: dict[asyncio.Task[Any], PolicyVersion | None] = {}
        """Task of a call → the version at its start."""
        self._dropped: set[asyncio.Task[Any]] = set()

    def build_pausing(self, server: PausedServer, engine: UpstreamEngine) -> ServerPausing:
        """Return the routes that pause a model server and its engine."""
        return ServerPausing(server, engine, self.gate)

    async def show(self) -> dict[str, Any]:
        """Return the version with which calls begin; None before the first update."""
        return {"version": self.version}

    async def work(self, call: Awaitable[_T]) -> _T:
        """Await `call`. Raises `EngineError` if it is dropped."""
        task = asyncio.current_task()
        assert task is not None
        self._working[task] = self.version
        try:
            return await call
        except asyncio.CancelledError:
            if task not in self._dropped or task.uncancel():  # its client disconnected, too
                raise
            raise EngineError(
                "the call was dropped because the policy has a new version",
                code="policy_updated",
                retryable=True,
            ) from None
        finally:
            del self._working[task]
            self._dropped.discard(task)

    def settle_version(self, began_with: PolicyVersion | None) -> PolicyVersion | None:
        """Return the version of a call: the recorded one if the call is replayed, else the given one."""
        tape = current_tape.get()
        return began_with if tape is None else tape.settle_versions(began_with, began_with)[0]

    def change(self, version: PolicyVersion, *, drop_in_flight: bool) -> int:
        """Switch to `version`. Returns the number of dropped calls of earlier versions.

        It may go back, as when another training begins. Only a session, which judges staleness by it, refuses that.
        """
        if isinstance(version, int) and isinstance(self.version, int) and version < self.version:
            log.warning("the version of the policy goes back from %d to %d", self.version, version)
        self.version = version
        earlier = {task for task, began_with in self._working.items() if began_with != version}
        dropped = earlier - self._dropped if drop_in_flight else set()
        self._dropped |= dropped
        for task in dropped:
            task.cancel()
        return len(dropped)


async def change_everywhere(client: ServerClient, server: str, update: PolicyUpdate) -> int:
    """Change the version in every process of a model server. Returns the total number of dropped calls.

    Raises the failure of a process; the others may have changed. Repeating the update is harmless.
    """
    alone = update.model_copy(update={"reload_weights": False, "everywhere": False})
    replies = await client.post_everywhere(server, "/policy_version", json=alone.model_dump())
    for reply in replies:
        reply.raise_for_status()
    return sum(orjson.loads(reply.body)["dropped"] for reply in replies)


class PolicyMember:
    """A process of a model server that takes the version of the others, because it was started later."""

    def __init__(
        self,
        client: ServerClient,
        server: str,
        policy: ServedPolicy,
        prepare: Callable[[], Awaitable[object]],
    ) -> None:
        """`prepare` is awaited before a version is taken: it loads the weights. Raises `EngineError`."""
        self._client = client
        self._server = server
        self._policy = policy
        self._prepare = prepare
        self._taken: PolicyVersion | None = None

    async def join(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Take the version of the others, until updates reach this process.

        While the others have different versions, an update is under way.
        """
        while self._policy.version == self._taken:  # otherwise an update has reached this process
            is_reached = self._is_reached()
            versions = await self._read_other_versions()
            if len(versions) <= 1 and versions <= {self._taken}:
                if is_reached:
                    return
            elif len(versions) == 1 and not await self._take(versions.pop()):
                return
            await sleep(_JOIN_EVERY_S)

    async def _take(self, version: PolicyVersion) -> bool:
        """Take a version, unless an update comes first. Returns False if the weights cannot be loaded."""
        try:
            await self._prepare()
        except EngineError as error:
            log.warning("calls have no policy version until the next update: %s", error.failure.message)
            return False
        if self._policy.version == self._taken:
            self._policy.change(version, drop_in_flight=False)
            self._taken = version
        return True

    def _is_reached(self) -> bool:
        """Return whether updates reach this process: it is in the directory of its gym."""
        directory, name = self._client.caller().directory, own_name()
        return not isinstance(directory, MovingDirectory) or name is None or not directory.has_lost(name)

    async def _read_other_versions(self) -> set[PolicyVersion]:
        """Return the versions that the other processes have."""
        caller = self._client.caller()
        given = bootstrap.current()
        if given is None or self._server not in caller.directory.names():
            return set()  # outside of a run it is the only one
        urls = caller.directory.replicas(self._server)
        others = [url for number, url in enumerate(urls) if number != given.replica]
        by_url = caller.narrow_to_urls(others)
        asking = (
            by_url.call(url, "GET", "/policy_version", deadline=Deadline.after(_ANSWER_WITHIN_S))
            for url in others
        )
        answers = await asyncio.gather(*asking, return_exceptions=True)
        # One that does not answer is being restarted.
        known = [
            orjson.loads(each.body)["version"] for each in answers if isinstance(each, Reply) and each.ok
        ]
        return {version for version in known if version is not None}


async def reload_weights(engine: UpstreamEngine) -> None:
    """Reload the weights from the model's folder in every replica. Raises `EngineError`.

    vLLM keeps prefixes in its cache that the old weights computed, and would mix both. So the prefix cache is reset,
    including the prefixes of running calls.
    """
    await _do_everywhere(
        engine, "/collective_rpc", {"method": "reload_weights"}, "the weights were not reloaded"
    )
    failed = "the weights were reloaded, but the prefix cache of the old weights was not reset"
    await _do_everywhere(engine, "/reset_prefix_cache?reset_running_requests=true", {}, failed)


async def _do_everywhere(engine: UpstreamEngine, path: str, body: Mapping[str, Any], failed: str) -> None:
    try:
        await engine.post_everywhere(path, body)
    except EngineRefused as refused:
        raise EngineError(
            f"{failed}: {refused.failure.message}",
            code="weights_not_reloaded",
            peer=refused.failure.peer,
            remedy=f"Start vLLM with VLLM_SERVER_DEV_MODE=1, which enables {path.partition('?')[0]}.",
        ) from refused
