"""Rows that a trainer holds, through agents of an in-process gym."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientResponseError
from fastapi import FastAPI, Request, Response

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.failures import GymError, TransportError
from nemo_gym.names import DIRECTORY_KEY
from nemo_gym.rollout_collection import (
    NG_FAILURE_CLASS_KEY,
    NG_NO_PERSIST_KEY,
    NG_TERMINAL_KEY,
    RolloutCollectionConfig,
    RolloutCollectionHelper,
    SharedRolloutCollectionConfig,
)
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.run.dispatch_budget import DispatchLatencyTracker
from nemo_gym.transport import InMemoryTransport
from nemo_gym.transport.server_client import ServerClient
from tests.rollouts.doubles import AGENT, task_row
from tests.waiting import until

CONFIG: dict[str, Any] = {AGENT: {"responses_api_agents": {"simple": {"host": "127.0.0.1", "port": 4000}}}}


class Helper(RolloutCollectionHelper):
    """Reaches an agent in memory that finishes attempts in the order of their answers.

    It begins to finish them when `together` of them are in flight.
    """

    def __init__(self, together: int = 1, config: dict[str, Any] = CONFIG) -> None:
        self._together = together
        self._config = config
        self._answers: list[int] = []
        self.calls = 0
        self.most_in_flight = 0
        self.head: BaseServerConfig | None = None

    def setup_server_client(self, head_server_config: BaseServerConfig | None = None) -> ServerClient:
        self.head = head_server_config
        app = FastAPI()
        app.post("/run")(self._run)
        transport = InMemoryTransport({"http://127.0.0.1:4000": app})
        return ServerClient.connect(self._config, transport=transport, token=None)

    async def _run(self, request: Request) -> Any:
        row = await request.json()
        self.calls += 1
        self._answers.append(row["answer"])
        self.most_in_flight = max(self.most_in_flight, len(self._answers))
        await until(lambda: self.most_in_flight >= self._together and row["answer"] <= min(self._answers))
        await asyncio.sleep(0.01)
        self._answers.remove(row["answer"])
        return Response(b"no such luck", 500) if row["answer"] == 13 else {**row, "reward": 1.0}


async def test_results_come_in_the_order_in_which_they_finish_each_with_its_row() -> None:
    head, rows = BaseServerConfig(host="127.0.0.1", port=11000), [task_row(5), task_row(1), task_row(3)]
    helper = Helper(together=3)
    got = [await each for each in helper.run_examples(examples=rows, head_server_config=head, semaphore=None)]
    assert [row["answer"] for row, _ in got] == [1, 3, 5]
    assert all(result == {**row, "reward": 1.0} for row, result in got)
    assert helper.head == head
    assert helper.most_in_flight == 3


async def test_a_semaphore_bounds_what_is_in_flight() -> None:
    helper = Helper()
    for each in helper.run_examples([task_row(1)] * 6, semaphore=asyncio.Semaphore(2)):
        await each
    assert helper.most_in_flight == 2


async def test_an_error_answer_raises_for_its_rollout_alone() -> None:
    results: list[Any] = []
    helper = Helper(together=3)
    for each in helper.run_examples([task_row(1), task_row(13), task_row(20)]):
        try:
            results.append((await each)[1]["answer"])
        except Exception as error:  # noqa: BLE001 - what trainers look for is on the exception
            results.append(error)
    assert (results[0], results[2]) == (1, 20)
    assert results[1].status == 500
    assert results[1].response_content == b"no such luck"
    assert helper.calls == 3


class OnAShakyNode(Helper):
    """Its agent reports a lost node before it answers, `losses` times for every row."""

    pause_s = 0.0

    def __init__(self, losses: int) -> None:
        super().__init__()
        self.losses = losses
        self.attempts: Counter[int] = Counter()

    async def _run(self, request: Request) -> Any:
        answer = (await request.json())["answer"]
        self.attempts[answer] += 1
        if self.attempts[answer] <= self.losses:
            failure = TransportError("the node was lost", code="node_lost", retryable=True).failure
            return Response(orjson.dumps(failure.to_wire()), 502, media_type="application/json")
        return await super()._run(request)


async def test_a_row_whose_node_was_lost_is_attempted_again() -> None:
    helper = OnAShakyNode(losses=2)
    got = [await each for each in helper.run_examples([task_row(1), task_row(2)])]
    assert [result["reward"] for _, result in got] == [1.0, 1.0]
    assert helper.attempts == {1: 3, 2: 3}


async def test_a_row_that_loses_its_node_every_time_raises() -> None:
    helper = OnAShakyNode(losses=9)
    (awaited,) = helper.run_examples([task_row(1)])
    with pytest.raises(ClientResponseError, match="the node was lost") as raised:
        await awaited
    assert raised.value.status == 502
    assert helper.attempts == {1: 3}


async def test_the_directory_is_followed_no_longer_than_rows_are_run() -> None:
    directory = {
        "version": 1,
        "head": "http://127.0.0.1:4001",
        "servers": {AGENT: [["http://127.0.0.1:4000", 1]]},
    }
    helper = Helper(config={**CONFIG, DIRECTORY_KEY: directory})
    for each in helper.run_examples([task_row(1), task_row(2)]):
        await each
    await until(lambda: not any(task.get_name() == "follow the directory" for task in asyncio.all_tasks()))


def test_the_keys_by_which_agents_tell_failures() -> None:
    assert (NG_FAILURE_CLASS_KEY, NG_NO_PERSIST_KEY, NG_TERMINAL_KEY) == (
        "_ng_failure_class",
        "_ng_no_persist",
        "_ng_failure_terminal",
    )


def test_a_config_in_the_ecosystems_words_is_the_settings_of_a_collection() -> None:
    settings = RolloutCollectionConfig(
        input_jsonl_fpath="in.jsonl",
        output_jsonl_fpath="out.jsonl",
        agent_name="a",
        num_repeats=4,
        num_samples_in_parallel=10,
        resume_from_cache=True,
    ).to_settings()
    assert settings.datasets[0].path == Path("in.jsonl")
    assert (settings.datasets[0].num_repeats, settings.datasets[0].agent_name) == (4, "a")
    assert settings.limits.in_parallel == 10
    assert settings.existing is Existing.RESUME
    with pytest.raises(ValueError, match="no_such_key"):
        RolloutCollectionConfig.model_validate(
            {"input_jsonl_fpath": "a", "output_jsonl_fpath": "b", "no_such_key": 1}
        )


def test_a_collection_that_must_be_complete_refuses_missing_results() -> None:
    config = SharedRolloutCollectionConfig(output_jsonl_fpath="out.jsonl", require_complete=True)
    config.check_completion(expected=2, results=[{}, {}])
    with pytest.raises(RuntimeError, match="1/2 samples completed"):
        config.check_completion(expected=2, results=[{}])


SHOP: dict[str, Any] = {
    "shop": {"resources_servers": {"shop": {"host": "127.0.0.1", "port": 4001}}},
    AGENT: {
        "responses_api_agents": {
            "simple": {
                "host": "127.0.0.1",
                "port": 4000,
                "resources_server": {"type": "resources_servers", "name": "shop"},
            }
        }
    },
}


def sourced_row(answer: int, source: str = "shop") -> dict[str, Any]:
    row = {**task_row(answer), "task_source": source}
    del row["agent_ref"]
    return row


async def test_the_agent_of_a_task_source_is_set_in_place_before_anything_runs() -> None:
    rows = [sourced_row(1), task_row(2)]
    pending = Helper(config=SHOP).run_examples(rows, max_resident_tasks=1)
    assert rows[0]["agent_ref"]["name"] == AGENT
    assert [(await each)[1]["reward"] for each in pending] == [1.0, 1.0]


async def test_one_server_can_attempt_every_row() -> None:
    rows = [sourced_row(1, "elsewhere"), {**task_row(2), "agent_ref": {"name": "other"}}]
    for each in Helper(config=SHOP).run_examples(rows, environment_server_name=AGENT):
        assert (await each)[0]["agent_ref"]["name"] == AGENT


async def test_an_unknown_agent_has_a_status() -> None:
    (pending,) = Helper().run_examples([{**task_row(1), "agent_ref": {"name": "nobody"}}])
    with pytest.raises(GymError) as raised:
        await pending
    assert 400 <= raised.value.status < 600


async def test_the_tracker_gets_the_seconds_of_each_rollout_and_tasks_are_bounded() -> None:
    tracker, helper = DispatchLatencyTracker(), Helper()
    for each in helper.run_examples([task_row(1)] * 5, max_resident_tasks=2, latency_tracker=tracker):
        await each
    assert helper.most_in_flight <= 2
    assert tracker.quantile(1.0) is not None
    assert tracker.summary().startswith("5 attempts finished")


def test_examples_are_repeated_for_their_agents_and_stay_as_they_are() -> None:
    rows = [sourced_row(1), task_row(2)]
    helper = Helper(config=SHOP)
    repeated = helper.preprocess_examples(
        rows, num_repeats=2, num_repeats_add_seed=True, global_config_dict=SHOP
    )
    assert [row["answer"] for row in repeated] == [1, 1, 2, 2]
    assert {row["agent_ref"]["name"] for row in repeated} == {AGENT}
    assert [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in repeated] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    seeds = [row["responses_create_params"]["metadata"]["extra_body"] for row in repeated]
    assert seeds == ['{"seed":0}', '{"seed":1}'] * 2
    assert "agent_ref" not in rows[0]


def test_examples_are_mapped_and_fanned_out() -> None:
    helper = Helper(config=SHOP)
    mapped = helper.preprocess_examples([sourced_row(1)], agent_map={"shop": "other"})
    assert [row["agent_ref"]["name"] for row in mapped] == ["other"]
    spread = helper.preprocess_examples(
        [task_row(1)], fan_out={AGENT: ["a", "b"]}, num_repeats={"_default": 1}
    )
    assert [row["agent_ref"]["name"] for row in spread] == ["a", "b"]
    with pytest.raises(ConfigErrors, match=r"Row 0: .*agent_ref"):
        helper.preprocess_examples([sourced_row(1)])


def test_sources_without_one_agent_are_all_named() -> None:
    rows, config = [sourced_row(1, "shpo"), sourced_row(2), sourced_row(3)], {**SHOP, "second": SHOP[AGENT]}
    with pytest.raises(ConfigErrors) as raised:
        RolloutCollectionHelper.resolve_task_sources(rows, config)
    assert [problem.message for problem in raised.value.problems] == [
        f"The `task_source` 'shop' is used by several agents: {', '.join(sorted([AGENT, 'second']))}.",
        "The `task_source` 'shpo' is no source of an agent.",
    ]
    assert raised.value.problems[1].remedy == "Did you mean 'shop'?"
    with pytest.raises(ConfigErrors):
        Helper(config=config).run_examples(rows)
    own = [sourced_row(1, AGENT)]
    RolloutCollectionHelper.resolve_task_sources(own, SHOP)
    assert own[0]["agent_ref"]["name"] == AGENT


async def test_failures_are_rows_without_a_reward_where_a_trainer_asks_for_them() -> None:
    rows = [task_row(1), task_row(13), {**task_row(2), "agent_ref": {"name": "nobody"}}]
    rewards = {}
    for each in Helper().run_examples(rows, None, None, True):
        row, result = await each
        rewards[row["answer"]] = result
    assert rewards[1]["reward"] == 1.0
    failed = rewards[13]
    assert failed["_ng_failure_class"] == "agent_run_error"
    assert "500" in failed["_ng_failure_message"]
    assert "no such luck" in failed["_ng_failure_message"]
    assert rewards[2]["_ng_failure_class"] == "agent_request_failed"
    assert "nobody" in rewards[2]["_ng_failure_message"]
    assert "reward" not in failed.keys() | rewards[2].keys()


async def test_no_row_starts_after_the_budget() -> None:
    helper, tracker = Helper(), DispatchLatencyTracker()
    pending = helper.run_examples([task_row(1)] * 3, dispatch_budget_s=0.0, latency_tracker=tracker)
    results = [(await each)[1] for each in pending]
    assert helper.calls == 0
    assert tracker.drained == 3
    assert [(result["_ng_failure_class"], result["_ng_no_persist"]) for result in results] == [
        ("cancelled", True)
    ] * 3
    again = helper.run_examples([task_row(1)] * 3, dispatch_budget_s=600.0, drain_margin_s=601.0)
    assert all([(await each)[1]["_ng_no_persist"] for each in again])
    enough = helper.run_examples([task_row(1)] * 3, dispatch_budget_s=600.0, drain_margin_s=1.0)
    assert [(await each)[1]["reward"] for each in enough] == [1.0] * 3
