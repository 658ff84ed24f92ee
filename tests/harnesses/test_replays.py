"""Known agents whose attempts are killed after each of their calls: they go on, and no recorded call is paid again.

The first three are compared without any noise, on commands that print no times. Codex adds an id and a duration to the
output of every command.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from nemo_gym.engines.attempts.noise import CLASSES
from nemo_gym.failures import Failure
from nemo_gym.mock_engine import MockEngine
from nemo_gym.mock_engine.conversation import Message
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rows.calls import read_calls
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.keys import REPLAY_KEY
from nemo_gym.tokens.records import RECORD_FIELD
from nemo_gym.tokens.segments import build_segments
from tests.engines.attempts.durable_gym import (
    ENVIRONMENTS,
    DurableGym,
    Row,
    cut_record,
    durable_over,
    find_latest,
    read_files,
    strip,
)
from tests.harnesses.policies import FILE, REPAIR, SUBTASK, SUMMARY, DelegatingPolicy, RepairPolicy
from tests.harnesses.repairs import CONFIGS, ENGINE, INSTALLED, ROW, skip_unless_installed

pytestmark = pytest.mark.harnesses
LOOKS = 2
NOISE = {"claude_code": (), "opencode": (), "qwen_code": (), "codex": ("hex_id", "duration")}
_VARIES = ("seconds", "stderr")
"""The report of an external agent on its program, which has times and ids of its own."""


class TimelessPolicy(RepairPolicy):
    """Its commands print no times."""

    def commands(self, conversation: Sequence[Message]) -> list[str]:
        return [*super().commands(conversation)[: self.looks], REPAIR, f"tail -n 2 {FILE}"]


class Harness(NamedTuple):
    gym: DurableGym
    policy: RepairPolicy
    task: PlannedAttempt


@asynccontextmanager
async def durable_harness(
    folder: Path, name: str, policy: RepairPolicy, *more: str, **options: Any
) -> AsyncIterator[Harness]:
    """A durable run of an installed agent with its ready configuration, on code_repair."""
    skip_unless_installed(name)
    files = [*map(str, ENVIRONMENTS["code_repair"].config_files), str(CONFIGS / f"{name}.yaml")]
    agent = f"++{name}.responses_api_agents.external_agent"
    overrides = (
        f"+harness_folder={INSTALLED}",
        f"{agent}.resources_server.name=code_repair",
        f"{agent}.timeout_s=600",
        "++code_repair.resources_servers.code_repair.expose_tools_over_mcp=true",
        "++policy_model.responses_api_models.vllm_model.uses_reasoning_parser=true",
        *more,
    )
    identity = RolloutId(0, 0)
    row = {**ROW, "agent_ref": {"type": "responses_api_agents", "name": name}}
    task = PlannedAttempt(identity, name, identity.head() + orjson.dumps(row)[1:])
    async with (
        MockEngine(ENGINE, policy=policy) as engine,
        durable_over(
            folder, engine.base_url, files, *overrides, count_engine_calls=lambda: policy.replies, **options
        ) as gym,
    ):
        yield Harness(gym, policy, task)


def strip_harness(row: Row, noise: Sequence[str]) -> Row:
    """A row without times and random ids, without noise, and without what the program of the agent printed.

    With noise, tokens are left out: they spell it.
    """
    about = row["external_agent"]
    if noise:
        output = [{**item, RECORD_FIELD: None} for item in row["response"]["output"]]
        row = {**row, "response": {**row["response"], "output": output}}
    text = json.dumps(
        strip({**row, "external_agent": {key: about[key] for key in about if key not in _VARIES}})
    )
    for name in noise:
        text = re.sub(CLASSES[name], f"<{name}>", text)
    stripped: Row = json.loads(text)
    return stripped


def sum_trained(row: Row) -> list[int]:
    """The trained tokens of each segment."""
    return [sum(segment.loss_mask) for segment in build_segments(read_calls(row))]


@pytest.mark.parametrize("name", NOISE)
async def test_an_attempt_killed_at_any_call_goes_on_and_pays_only_what_is_left(
    name: str, tmp_path: Path
) -> None:
    policy = TimelessPolicy(LOOKS)
    async with durable_harness(tmp_path, name, policy, replay_noise=[*NOISE[name]]) as harness:
        gym, task = harness.gym, harness.task
        whole = await gym.run(task)
        assert whole["reward"] == 1.0
        calls, files = policy.replies, read_files(find_latest(gym, task))
        assert calls >= LOOKS + 3
        for killed_at in range(1, calls + 1):
            gym.leave_record(task.identity, cut_record(files, killed_at, in_flight=True))
            before = policy.replies
            row = await gym.run(task)
            about: dict[str, Any] = row[REPLAY_KEY]
            assert (about["calls_replayed"], about["calls_live"]) == (killed_at, calls - killed_at)
            assert policy.replies - before == calls - killed_at
            assert about["noise"].keys() <= set(NOISE[name])
            assert about["observations_compared"] >= killed_at
            assert strip_harness(row, NOISE[name]) == strip_harness(whole, NOISE[name])
            assert sum_trained(row) == sum_trained(whole)
            if killed_at == calls:
                assert read_calls(row) == read_calls(whole), "the recorded text is sent in place of noise"


async def test_an_agent_with_a_subagent_and_a_compaction_is_replayed(tmp_path: Path) -> None:
    policy = DelegatingPolicy(12)
    window = "++claude_code.responses_api_agents.external_agent.environment.CLAUDE_CODE_AUTO_COMPACT_WINDOW='120000'"
    # A subagent has an id and a duration, and the summary names the file of the session.
    options = {"replay_noise": ["duration", "hex_id", "uuid"]}
    async with durable_harness(tmp_path, "claude_code", policy, window, **options) as harness:
        gym, task = harness.gym, harness.task
        whole = await gym.run(task)
        assert whole["reward"] == 1.0
        calls, files = policy.replies, read_files(find_latest(gym, task))
        assert any(SUMMARY in str(item) for item in files.values())
        assert sum(SUBTASK.encode() in content for content in files.values()) == 1
        for killed_at in range(2, calls + 1, 3):
            gym.leave_record(task.identity, cut_record(files, killed_at, in_flight=True))
            before = policy.replies
            row = await gym.run(task)
            assert row[REPLAY_KEY]["calls_replayed"] == killed_at
            assert policy.replies - before == calls - killed_at
            assert row["reward"] == 1.0


async def test_a_program_that_prints_durations_is_a_mismatch_without_their_class(tmp_path: Path) -> None:
    policy = TimelessPolicy(LOOKS)
    async with durable_harness(tmp_path, "codex", policy) as harness:
        gym, task = harness.gym, harness.task
        await gym.run(task)
        before = policy.replies
        gym.leave_record(task.identity, read_files(find_latest(gym, task)))
        result = await gym.attempt(task)
        assert isinstance(result, Failure)
        assert result.code == "replay_mismatch", json.dumps(result.message)
        assert "Chunk ID: " in result.message
        assert policy.replies == before
