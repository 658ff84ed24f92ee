"""The policy's version, and the calls in flight when it changes.

A trainer posts each new version to the model server. Every call records the version at its start, and the version at
its end if that differs. Calls of an old version can be dropped: they fail with a retryable failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from nemo_gym.engines.engine import EngineRefused, UpstreamEngine
from nemo_gym.failures import EngineError
from nemo_gym.tokens.records import PolicyVersion
from nemo_gym.transport.server_client import ServerClient

_T = TypeVar("_T")


class PolicyUpdate(BaseModel):
    """The body of `POST /policy_version`."""

    model_config = ConfigDict(extra="forbid")

    version: StrictInt | str
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
        self._working: dict[asyncio.Task[Any], PolicyVersion | None] = {}
        """Task of a call → the version at its start."""
        self._dropped: set[asyncio.Task[Any]] = set()

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

    def change(self, version: PolicyVersion, *, drop_in_flight: bool) -> int:
        """Switch to `version`. Returns the number of dropped calls of earlier versions."""
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
