"""Attempts that are killed at each of their calls: they go on, and their rows are those of undisturbed attempts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import yaml

from nemo_gym import PARENT_DIR
from nemo_gym.engines.attempts.replay import put_seed
from nemo_gym.failures import Failure
from nemo_gym.mock_engine import EngineOptions, MockEngine, ModelReply
from nemo_gym.mock_engine.conversation import Message, Tool, last_user_text, read_text
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rows.calls import read_calls
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.keys import REPLAY_KEY
from nemo_gym.tokens.segments import build_segments
from tests.engines.attempts.durable_gym import (
    ENVIRONMENTS,
    STATEFUL,
    count_calls,
    cut_record,
    durable_gym,
    durable_over,
    find_latest,
    plan_examples,
    read_files,
    strip,
)

TASKS = 2
"""Example tasks of each environment that are killed at each call."""


@pytest.mark.parametrize("environment", [name for name in STATEFUL if name != "code_repair"])
async def test_an_attempt_killed_at_any_call_ends_with_the_row_of_an_undisturbed_one(
    tmp_path: Path, environment: str
) -> None:
    async with durable_gym(tmp_path, [environment]) as gym:
        for task in plan_examples(ENVIRONMENTS[environment])[:TASKS]:
            whole = await gym.run(task)
            assert REPLAY_KEY not in whole
            files = read_files(find_latest(gym, task))
            calls = count_calls(whole)
            for killed_at, in_flight in [
                (at, flight) for at in range(1, calls + 1) for flight in (False, True)
            ]:
                gym.leave_record(task.identity, cut_record(files, killed_at, in_flight=in_flight))
                before = gym.count_engine_calls()
                row = await gym.run(task)
                about: dict[str, Any] = row[REPLAY_KEY]
                assert strip(row) == strip(whole)
                assert (about["calls_replayed"], about["calls_live"]) == (killed_at, calls - killed_at)
                assert gym.count_engine_calls() - before == calls - killed_at
                assert about["noise"] == {}


def change_duration(files: dict[str, bytes]) -> dict[str, bytes]:
    """The record with another duration in the first output of a test run."""
    ((name, content),) = files.items()
    changed, count = re.subn(rb"in \d\.\d{3}s", b"in 9.876s", content, count=1)
    assert count == 1, "unittest prints a duration"
    return {name: changed}


async def test_a_printed_duration_that_differs_is_a_mismatch_with_both_texts(tmp_path: Path) -> None:
    async with durable_gym(tmp_path, ["code_repair"]) as gym:
        task = plan_examples(ENVIRONMENTS["code_repair"])[0]
        await gym.run(task)
        gym.leave_record(task.identity, change_duration(read_files(find_latest(gym, task))))
        before = gym.count_engine_calls()
        result = await gym.attempt(task)
        asked = gym.count_engine_calls() - before
        assert isinstance(result, Failure)
        assert (result.code, result.retryable) == ("replay_mismatch", True)
        assert re.search(r"turn \d+ \(output\), character \d+", result.message)
        assert "in 9.876s" in result.message
        assert result.message.count("in ") > 1, "both texts"
        assert asked == 0, "no engine was asked"
        afresh = await gym.run(task)
        assert REPLAY_KEY not in afresh


async def test_declared_durations_are_counted_in_the_row(tmp_path: Path) -> None:
    async with durable_gym(tmp_path, ["code_repair"], replay_noise=["duration"]) as gym:
        task = plan_examples(ENVIRONMENTS["code_repair"])[0]
        whole = await gym.run(task)
        gym.leave_record(task.identity, change_duration(read_files(find_latest(gym, task))))
        row = await gym.run(task)
        about: dict[str, Any] = row[REPLAY_KEY]
        assert about["noise"]["duration"] >= 1
        assert (about["calls_replayed"], about["calls_live"]) == (count_calls(whole), 0)


async def test_the_recorded_durations_are_sent_so_that_the_tokens_extend(tmp_path: Path) -> None:
    async with durable_gym(tmp_path, ["code_repair"], replay_noise=["duration"]) as gym:
        for task in plan_examples(ENVIRONMENTS["code_repair"])[:TASKS]:
            whole = await gym.run(task)
            calls, files = count_calls(whole), read_files(find_latest(gym, task))
            for killed_at in range(1, calls + 1):
                gym.leave_record(task.identity, cut_record(files, killed_at, in_flight=False))
                row = await gym.run(task)
                assert row[REPLAY_KEY]["noise"].keys() <= {"duration"}
                assert row["reward"] == whole["reward"]
                assert len(build_segments(read_calls(row))) == 1


EXTRAS = {"metadata": {"extra_body": '{"seed":3,"top_k":1}', "other": "x"}}


@pytest.mark.parametrize(
    ("body", "added", "expected"),
    [
        ({"seed": 3}, 5, {"seed": 8}),
        ({"seed": 3}, None, {"seed": 3}),
        ({"seed": (1 << 31) - 1}, 1, {"seed": 0}),
        (EXTRAS, 5, {"metadata": {"extra_body": '{"seed":8,"top_k":1}', "other": "x"}}),
        ({"metadata": {"extra_body": "{}"}}, 5, {"metadata": {"extra_body": "{}"}}),
        ({"metadata": {"extra_body": "no JSON"}}, 5, {"metadata": {"extra_body": "no JSON"}}),
        ({"metadata": None, "seed": None}, 5, {"metadata": None, "seed": None}),
    ],
)
def test_a_seed_is_changed_where_the_request_has_it(
    body: dict[str, Any], added: int | None, expected: dict[str, Any]
) -> None:
    assert put_seed(body, added) == expected


class Talk:
    """Plays both sides: a user who wants three things in turn, and a policy that repeats the last."""

    replies = 0

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        self.replies += 1
        if "You are Ines" in read_text(conversation[0].get("content")):
            said = sum(message["role"] == "assistant" for message in conversation)
            return ModelReply(text=f"wish {said} {rng.random()}" if said < 3 else "###STOP###")
        return ModelReply(text=f"You want: {last_user_text(conversation)}")


def write_talk(folder: Path) -> list[str]:
    """The configuration of a policy that talks to a user whom another model server plays."""
    text = (
        PARENT_DIR / "responses_api_agents/user_simulation_agent/configs/user_simulation_agent.yaml"
    ).read_text()
    talk = yaml.safe_load(text)
    agent = talk["user_simulation_agent"]["responses_api_agents"]["user_simulation_agent"]
    agent["resources_server"]["name"] = "example_session_state_mgmt"
    agent["user_model_server"]["name"] = "user_model"
    policy = yaml.safe_load(
        (PARENT_DIR / "responses_api_models/vllm_model/configs/vllm_model.yaml").read_text()
    )
    (folder / "talk.yaml").write_text(yaml.safe_dump({**talk, "user_model": policy["policy_model"]}))
    return [*map(str, ENVIRONMENTS["example_session_state_mgmt"].config_files), str(folder / "talk.yaml")]


async def test_the_simulated_user_says_again_what_it_said(tmp_path: Path) -> None:
    talk, identity = Talk(), RolloutId(0, 0)
    row = {
        "responses_create_params": {"input": [{"role": "system", "content": "You work for the library."}]},
        "user_simulation": {"instructions": "You are Ines."},
        "initial_count": 1,
        "expected_count": 1,
    }
    task = PlannedAttempt(identity, "user_simulation_agent", identity.head() + orjson.dumps(row)[1:])
    async with (
        MockEngine(EngineOptions(model="mock"), policy=talk) as engine,
        durable_over(
            tmp_path, engine.base_url, write_talk(tmp_path), count_engine_calls=lambda: talk.replies
        ) as gym,
    ):
        whole = await gym.run(task)
        calls, files = talk.replies, read_files(find_latest(gym, task))
        assert len(files) == 2, "both servers have recorded"
        for killed_at in range(1, calls + 1):
            for in_flight in (False, True):
                gym.leave_record(task.identity, cut_record(files, killed_at, in_flight=in_flight))
                before = talk.replies
                again = await gym.run(task)
                assert strip(again) == strip(whole) or killed_at < calls, "what the user says next is random"
                assert talk.replies - before == calls - killed_at
                assert again[REPLAY_KEY]["calls_replayed"] == killed_at
