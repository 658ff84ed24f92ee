"""The policy's version, and what becomes of work in flight when it changes.

A trainer tells the model server each new version. Every call is stamped with the version that it began with, and
with the one it ended with where that is another. Work of an old version can be dropped: the caller gets a failure
that another attempt gets over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from nemo_gym.engines.engine import Engine, EngineRefused
from nemo_gym.failures import EngineError
from nemo_gym.tokens.records import PolicyVersion
from nemo_gym.transport.server_client import ServerClient

_T = TypeVar("_T")


class PolicyUpdate(BaseModel):
    """The body of `POST /policy_version`."""

    model_config = ConfigDict(extra="forbid")

    version: StrictInt | str
    drop_in_flight: bool = Field(False, description="Give up calls that began with an earlier version.")
    reload_weights: bool = Field(
        False,
        description="Before the change, have every replica of the engine load its weights again and forget what it "
        "cached with the old ones.",
    )
    everywhere: bool = Field(
        True, description="Change all processes of the server, and not only the one that is asked."
    )


class ServedPolicy:
    """Which version answers now, and the calls it is working on."""

    def __init__(self) -> None:
        self.version: PolicyVersion | None = None
        """None until somebody tells it."""
        self._working: dict[asyncio.Task[Any], PolicyVersion | None] = {}
        """Each with the version that it began with."""
        self._dropped: set[asyncio.Task[Any]] = set()

    async def work(self, call: Awaitable[_T]) -> _T:
        """What `call` gives; raises `EngineError` when it is dropped."""
        task = asyncio.current_task()
        assert task is not None
        self._working[task] = self.version
        try:
            return await call
        except asyncio.CancelledError:
            if task not in self._dropped or task.uncancel():  # its caller went away too
                raise
            raise EngineError(
                "the call was given up because the policy has a new version",
                code="policy_updated",
                retryable=True,
            ) from None
        finally:
            del self._working[task]
            self._dropped.discard(task)

    def change(self, version: PolicyVersion, *, drop_in_flight: bool) -> int:
        """Answer with `version` from now on; how many calls that began with an earlier one were given up."""
        self.version = version
        earlier = {task for task, began_with in self._working.items() if began_with != version}
        dropped = earlier - self._dropped if drop_in_flight else set()
        self._dropped |= dropped
        for task in dropped:
            task.cancel()
        return len(dropped)


async def change_everywhere(client: ServerClient, server: str, update: PolicyUpdate) -> int:
    """Have every process of a model server change its version; how many calls they gave up together.

    Raises the failure of one that didn't, while the others may have. To tell them again is harmless.
    """
    alone = update.model_copy(update={"reload_weights": False, "everywhere": False})
    told = await client.post_everywhere(server, "/policy_version", json=alone.model_dump())
    for reply in told:
        reply.raise_for_status()
    return sum(reply.reply.json()["dropped"] for reply in told)


async def reload_weights(engine: Engine) -> None:
    """Have every replica load its weights from the model's folder again. Raises `EngineError`.

    vLLM by itself keeps the prefixes that it cached, which the old weights computed, and samples from a mixture of
    both. So they are dropped, those of running calls too.
    """
    await _do_everywhere(
        engine, "/collective_rpc", {"method": "reload_weights"}, "the weights were not reloaded"
    )
    failed = "the weights were reloaded, but what the old ones had cached was kept"
    await _do_everywhere(engine, "/reset_prefix_cache?reset_running_requests=true", {}, failed)


async def _do_everywhere(engine: Engine, path: str, body: Mapping[str, Any], failed: str) -> None:
    try:
        await engine.post_everywhere(path, body)
    except EngineRefused as refused:
        raise EngineError(
            f"{failed}: {refused.failure.message}",
            code="weights_not_reloaded",
            peer=refused.failure.peer,
            remedy=f"vLLM has {path.partition('?')[0]} when it is started with VLLM_SERVER_DEV_MODE=1.",
        ) from refused
