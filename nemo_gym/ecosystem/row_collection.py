"""The ecosystem's API for rollouts of rows in memory, which NeMo RL and verl embed.

The servers are those of a running gym, found through its head server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

from pydantic import Field

from nemo_gym.clock import monotonic
from nemo_gym.config.types import BaseServerConfig
from nemo_gym.failures import TransportError
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import find_gym
from nemo_gym.rollouts.run.dispatch_budget import DispatchLatencyTracker
from nemo_gym.rollouts.run.options import CompletenessOptions, RoutingOptions
from nemo_gym.rollouts.run.required_servers import list_server_users
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rows.calls import convert_for_trainers
from nemo_gym.rows.compose import assign_agent
from nemo_gym.rows.forms import AnyRow, ScoredRow, TaskRow
from nemo_gym.rows.parts import read_agent, read_task_source, require_agent
from nemo_gym.transport import read_reply_failure
from nemo_gym.transport.moving_directory import NODE_LOST
from nemo_gym.transport.server_client import (
    ServerClient,
    ServerReply,
    get_response_json,
    raise_for_status,
)

_ATTEMPTS = 3


def _assign_agents(
    examples: Iterable[AnyRow], config: Mapping[str, Any], server: str | None
) -> list[TaskRow]:
    """Return the rows, whose agents are also set in place: the only agent that uses the server of a `task_source`.

    `server` is the agent of all rows if it is not None. A row whose agent is not known stays as it is.
    """
    users, rows = list_server_users(config), []
    for row in examples:
        own = (
            [server]
            if server is not None
            else []
            if read_agent(row)
            else users.get(read_task_source(row), [])
        )
        if len(own) == 1 and isinstance(row, MutableMapping):
            row.update(assign_agent(TaskRow(dict(row)), own[0]))
        rows.append(TaskRow(dict(row)))
    return rows


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
        *,
        environment_server_name: str | None = None,
        max_resident_tasks: int | None = None,
        latency_tracker: DispatchLatencyTracker | None = None,
    ) -> Iterator[Awaitable[tuple[TaskRow, ScoredRow]]]:
        """Return awaitables in the order in which rollouts finish; each returns the row and the scored row.

        Token ids are in the fields that trainers read, for every form of `token_fields` (docs/tokens.md). Call it
        inside a running event loop. `semaphore` and `max_resident_tasks` bound the rollouts in flight. The agent of a
        row that names only its `task_source` is set in place before it returns; `environment_server_name` is that of
        every row. A failed rollout raises an exception with `.status`, an error answer also `.response_content`. A row
        whose node was lost is attempted up to three times. `latency_tracker` gets the seconds of each.
        """
        client = self.setup_server_client(head_server_config)
        gate = semaphore if semaphore is not None else nullcontext()
        resident = asyncio.Semaphore(max_resident_tasks) if max_resident_tasks is not None else nullcontext()
        rows = _assign_agents(examples, client.global_config_dict, environment_server_name)
        left = len(rows)

        async def run(row: TaskRow) -> tuple[TaskRow, ScoredRow]:
            nonlocal left
            try:
                async with resident, gate:
                    began = monotonic()
                    reply = await self._post(client, row)
                    if latency_tracker is not None:
                        latency_tracker.record(monotonic() - began)
            finally:
                left -= 1
                if not left:
                    client.caller().stop_following()
            await raise_for_status(reply)
            return row, convert_for_trainers(await get_response_json(reply))

        return iter(asyncio.as_completed([run(row) for row in rows]))

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

    def preprocess_examples(
        self, examples: Iterable[AnyRow], head_server_config: BaseServerConfig | None = None
    ) -> list[AnyRow]:
        """Return rows with the agents of their `task_source`, which are set in place."""
        given = list(examples)
        _assign_agents(given, self.setup_server_client(head_server_config).global_config_dict, None)
        return given

    async def run_from_config(self, config: RolloutCollectionConfig) -> CollectSummary:
        """Collect from a dataset file with the gym started in this folder."""
        gym = await find_gym(Path.cwd())
        caller = gym.caller()
        try:
            return await collect(config.to_settings(), caller, gym)
        finally:
            await caller.transport.close()
