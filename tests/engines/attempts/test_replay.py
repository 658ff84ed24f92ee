"""Attempts that are killed at each of their calls: they go on, and their rows are those of undisturbed attempts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import Failure
from nemo_gym.rows.calls import read_calls
from nemo_gym.rows.keys import REPLAY_KEY
from nemo_gym.tokens.segments import build_segments
from tests.engines.attempts.durable_gym import (
    ENVIRONMENTS,
    STATEFUL,
    count_calls,
    cut_record,
    durable_gym,
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
