"""The ecosystem's API for rollouts of rows in memory, which NeMo RL and verl embed.

The servers are those of a running gym, found through its head server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import ClientError
from pydantic import Field

from nemo_gym.clock import monotonic
from nemo_gym.config.types import BaseServerConfig
from nemo_gym.ecosystem.row_dispatch import (
    StartLimit,
    assign_agents,
    build_request_failure,
    repeat_examples,
)
from nemo_gym.failures import GymError, TransportError
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.routing import Routing
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import find_gym
from nemo_gym.rollouts.run.dispatch_budget import DispatchLatencyTracker
from nemo_gym.rollouts.run.options import CompletenessOptions, RoutingOptions
from nemo_gym.rollouts.run.required_servers import list_server_users
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rows.calls import convert_for_trainers
from nemo_gym.rows.forms import AnyRow, FailureRow, ScoredRow, TaskRow
from nemo_gym.rows.parts import require_agent
from nemo_gym.transport import read_reply_failure
from nemo_gym.transport.moving_directory import NODE_LOST
from nemo_gym.transport.server_client import (
    ServerClient,
    ServerReply,
    get_response_json,
    raise_for_status,
)

_ATTEMPTS = 3
_T = TypeVar("_T")


class SharedRolloutCollectionConfig(RoutingOptions, CompletenessOptions, extra="forbid"):
    """The ecosystem's settings of a collection from any source."""

    output_jsonl_fpath: str
    num_samples_in_parallel: int | None = None
    responses_create_params: dict[str, Any] = Field(default_factory=dict)

    def check_completion(self, *, expected: int, results: Sequence[object]) -> None:
        """Raise `RuntimeError` with `require_complete` if there are fewer results than expected."""
        if self.require_complete and len(results) < expected:
            raise RuntimeError(f"require_complete: {len(results)}/{expected} samples completed")


class RolloutCollectionConfig(SharedRolloutCollectionConfig):
    """The ecosystem's settings of a collection from a dataset file."""

    input_jsonl_fpath: str
    agent_name: str | None = None
    limit: int | None = None
    num_repeats: int | dict[str, int] | None = None
    num_repeats_add_seed: bool = False
    resume_from_cache: bool = False
    prompt_config: str | None = None

    def to_settings(self) -> CollectSettings:
        prompt = Path(self.prompt_config) if self.prompt_config else None
        by_agent = self.num_repeats if isinstance(self.num_repeats, dict) else {}
        repeats = self.num_repeats if isinstance(self.num_repeats, int) else 1
        dataset = DatasetFile(Path(self.input_jsonl_fpath), repeats, self.agent_name, prompt)
        in_parallel = self.num_samples_in_parallel or RunLimits().in_parallel
        options = {*RoutingOptions.model_fields, *CompletenessOptions.model_fields}
        return CollectSettings(
            datasets=(dataset,),
            output=Path(self.output_jsonl_fpath),
            limit=self.limit,
            responses_create_params=self.responses_create_params,
            num_repeats_add_seed=self.num_repeats_add_seed,
            existing=Existing.RESUME if self.resume_from_cache else Existing.REFUSE,
            limits=RunLimits(in_parallel, self.max_resident_rollout_tasks),
            repeats_by_agent=by_agent,
            **self.model_dump(include=options),
        )


class RolloutCollectionHelper:
    """Runs rows with the agents that they name."""

    pause_s: float = 1.0
    """Seconds before another attempt at a row whose node was lost. Within them every server learns of the loss."""

    def setup_server_client(self, head_server_config: BaseServerConfig | None = None) -> ServerClient:
        """Return a client of the agents, by default of the gym at the configured head server."""
        return ServerClient.load_from_global_config(head_server_config)

    def run_examples(
        self,
        examples: Iterable[AnyRow],
        head_server_config: BaseServerConfig | None = None,
        semaphore: AbstractAsyncContextManager[Any] | None = None,
        route_failures_to_sidecar: bool = False,
        environment_server_name: str | None = None,
        *,
        max_resident_tasks: int | None = None,
        dispatch_budget_s: float | None = None,
        drain_margin_s: float | None = None,
        latency_tracker: DispatchLatencyTracker | None = None,
    ) -> Iterator[Awaitable[tuple[TaskRow, ScoredRow | FailureRow]]]:
        """Return awaitables in the order in which rollouts finish; each returns the row and the scored row.

        Call it inside a running event loop. Token ids are in the fields that trainers read (docs/tokens.md). The agent
        of a row that names only its `task_source` is set in place before it returns; `ConfigErrors` for none or
        several. A failed rollout raises an exception with `.status`, or returns a row without a reward
        (`route_failures_to_sidecar`). A row that would start after `dispatch_budget_s`, less `drain_margin_s`, returns
        one of the class `cancelled`. A row whose node was lost is attempted up to three times.
        """
        client = self.setup_server_client(head_server_config)
        resident = asyncio.Semaphore(max_resident_tasks) if max_resident_tasks else nullcontext()
        rows = assign_agents(examples, client.global_config_dict, environment_server_name)
        limit = StartLimit(dispatch_budget_s, drain_margin_s, latency_tracker or DispatchLatencyTracker())
        left = len(rows)

        async def run(row: TaskRow) -> tuple[TaskRow, ScoredRow | FailureRow]:
            nonlocal left
            try:
                async with resident, semaphore or nullcontext():
                    return row, limit.drain_row() or await self._attempt(client, row, limit)
            except (ClientError, GymError, ValueError, TimeoutError) as error:
                return row, build_request_failure(error, raises=not route_failures_to_sidecar)
            finally:
                left -= 1
                if not left:
                    client.caller().stop_following()

        return _complete_in_order([run(row) for row in rows])

    async def _attempt(self, client: ServerClient, row: TaskRow, limit: StartLimit) -> ScoredRow:
        began = monotonic()
        reply = await self._post(client, row)
        await raise_for_status(reply)
        result = await get_response_json(reply)
        limit.tracker.record(monotonic() - began)
        return convert_for_trainers(result)

    async def _post(self, client: ServerClient, row: TaskRow) -> ServerReply:
        """Return the answer of the row's agent. Raises `TransportError` if it cannot be reached."""
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                reply = await client.post(server_name=require_agent(row), url_path="/run", json=row)
                failure = None if reply.ok else read_reply_failure(reply)
                if not attempts_left or failure is None or failure.code != NODE_LOST:
                    return reply
            except TransportError as error:
                if not attempts_left or error.failure.code != NODE_LOST:
                    raise
            await asyncio.sleep(self.pause_s)
        raise AssertionError("the last attempt returns or raises")

    @staticmethod
    def resolve_task_sources(examples: Iterable[AnyRow], global_config_dict: Mapping[str, Any]) -> None:
        """Set the agents of rows that name only their `task_source`. Raises `ConfigErrors` for those without one."""
        assign_agents(examples, global_config_dict)

    def preprocess_examples(
        self,
        examples: Iterable[AnyRow],
        *,
        agent_map: Mapping[str, str] | None = None,
        fan_out: Mapping[str, Sequence[str]] | None = None,
        num_repeats: int | Mapping[str, int] = 1,
        num_repeats_add_seed: bool = False,
        global_config_dict: Mapping[str, Any] | None = None,
    ) -> list[TaskRow]:
        """Return copies of rows for their agents and repeats, numbered by task and rollout; the rows stay as they are.

        `global_config_dict` finds the agents of rows that name only their `task_source`. Raises `ConfigErrors` for
        rows without an agent or with other faults.
        """
        by_agent = num_repeats if isinstance(num_repeats, Mapping) else {}
        routing = Routing(
            agent_map or {}, fan_out or {}, by_agent, list_server_users(global_config_dict or {})
        )
        repeats = num_repeats if isinstance(num_repeats, int) else 1
        return repeat_examples(list(examples), routing, repeats, add_seed=num_repeats_add_seed)

    async def run_from_config(self, config: RolloutCollectionConfig) -> CollectSummary:
        """Collect from a dataset file with the gym started in this folder."""
        gym = await find_gym(Path.cwd())
        caller = gym.caller()
        try:
            return await collect(config.to_settings(), caller, gym)
        finally:
            await caller.transport.close()


def _complete_in_order(runs: Sequence[Coroutine[Any, Any, _T]]) -> Iterator[Awaitable[_T]]:
    """Start `runs` in their order once the first is requested, and yield them in the order in which they finish."""
    yield from asyncio.as_completed([asyncio.ensure_future(run) for run in runs])
