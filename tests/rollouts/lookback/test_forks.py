"""Forks of recorded rollouts, in a gym in this process: shared calls, groups, tokens, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.config.loading import load
from nemo_gym.engines.attempts.record import read_attempt
from nemo_gym.failures import ConfigError
from nemo_gym.launch.inline import inline
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rollouts.lookback.fork_values import describe_left_out
from nemo_gym.rollouts.lookback.forks import (
    ForkSettings,
    describe_cost,
    find_parents,
    fork,
)
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.options import DurabilityOptions
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rows.calls import convert_for_trainers, read_calls
from nemo_gym.rows.keys import FORK_KEY, REPLAY_KEY
from nemo_gym.serving.durable.plans import ReplayMode
from nemo_gym.tokens.segments import build_segments
from tests.engines.attempts.durable_gym import ENVIRONMENTS, Row, count_calls
from tests.rollouts.stored_runs import scored_row, store
from tests.waiting import until

ENVIRONMENT = ENVIRONMENTS["example_session_state_mgmt"]
KEEPS = {"durability": "process", "keep_attempts": "all"}


@dataclass(frozen=True, slots=True)
class Forkable:
    rows: Path
    gym: DiscoveredGym
    output: Path
    collecting: asyncio.Task[CollectSummary]

    @property
    def run(self) -> StoredRun:
        return StoredRun(self.rows, may_have_begun=True)

    async def fork(self, turn: int, forks: int = 2, **settings: Any) -> list[Row]:
        """The forks' rows by task and repeat: those of the file are in the order in which they ended."""
        parents = find_parents(self.run, turn, task=settings.pop("task", None))
        options = DurabilityOptions(durability="process", keep_attempts="all", on_mismatch="fail")
        given = ForkSettings(turn, forks, self.output, options=options, **settings)
        summary = await fork(given, self.run, parents, self.gym.caller(), self.gym)
        assert summary.exit_code == 0, summary.to_json()
        return sorted(
            read_rows(self.output), key=lambda row: (row["_ng_task_index"], row["_ng_rollout_index"])
        )


def read_rows(path: Path) -> list[Row]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


@asynccontextmanager
async def forkable(
    folder: Path, *, keeps: bool = True, form: str = "packed", is_over: bool = True, **engine_options: Any
) -> AsyncIterator[Forkable]:
    """A run of one environment whose attempts were kept, and its gym. The policy calls tools and then answers."""
    files = [str(path) for path in ENVIRONMENT.config_files]
    files.append("responses_api_models/vllm_model/configs/vllm_model.yaml")
    tokens = "++policy_model.responses_api_models.vllm_model"
    with EngineProcess(EngineOptions(policy="tools", most_calls=3, model="mock", **engine_options)) as engine:
        given = [
            f"+config_paths=[{','.join(files)}]",
            f"+policy_base_url={engine.base_url}",
            "+policy_api_key=none",
            "+policy_model_name=mock",
            f"{tokens}.return_token_id_information=true",
            f"{tokens}.token_fields={form}",
            f"+model_call_capture_dir={folder / 'model_calls'}",
        ]
        async with inline(load(given, env_path=None)) as served:
            gym = DiscoveredGym(served.config, served.token, served.transport)
            settings = CollectSettings(
                datasets=(
                    DatasetFile(ENVIRONMENT.folder / "data" / "example.jsonl", 1, ENVIRONMENT.agents()[0]),
                ),
                output=folder / "out.jsonl",
                environment_metrics_max_rows=0,
                limit=2,
                **(KEEPS if keeps else {}),
            )
            collecting = asyncio.create_task(collect(settings, gym.caller(), gym))
            if is_over:
                assert (await collecting).exit_code == 0
            try:
                yield Forkable(
                    folder / "out.jsonl",
                    gym,
                    folder / "forks.jsonl",
                    collecting,
                )
            finally:
                collecting.cancel()
                await asyncio.wait([collecting])


def read_parent(gym: Forkable, row: Row) -> Row:
    task, repeat = row[FORK_KEY]["parent"]
    return next(
        each
        for each in read_rows(gym.rows)
        if (each["_ng_task_index"], each["_ng_rollout_index"]) == (task, repeat)
    )


@pytest.mark.parametrize("form", ["packed", "contract", "lists"])
async def test_forks_share_their_parents_calls_and_train_only_their_own(tmp_path: Path, form: str) -> None:
    async with forkable(tmp_path, form=form) as gym:
        rows = await gym.fork(2)
        assert len(rows) == 4
        for row in rows:
            parent = read_parent(gym, row)
            assert row[FORK_KEY]["turn"] == 2
            assert row[REPLAY_KEY]["mode"] == "fork"
            assert row[REPLAY_KEY]["calls_replayed"] == 2
            ours, theirs = read_calls(row), read_calls(parent)
            assert [call.untrained for call in ours] == ["of_parent"] * 2 + [None] * (len(ours) - 2)
            assert [call.tokens and call.tokens.generated for call in ours[:2]] == [
                call.tokens and call.tokens.generated for call in theirs[:2]
            ]
            for exported in (row, convert_for_trainers(row)):  # type: ignore[arg-type]
                trained = sum(sum(segment.loss_mask) for segment in build_segments(read_calls(exported)))
                assert trained == sum(len(call.tokens.generated) for call in ours[2:] if call.tokens)
                first = next(item for item in exported["response"]["output"] if "_ng_tokens" in item)
                assert "generation_token_ids" not in first, (
                    "a trainer that reads the fields sees no shared call"
                )
        groups = {row[FORK_KEY]["group"] for row in rows}
        assert groups == {"0.0@2", "1.0@2"}
        assert sorted(row[FORK_KEY]["number"] for row in rows) == [0, 0, 1, 1]


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("out*") if path.is_file()}


async def test_forks_are_in_no_figure_of_their_parents_run(tmp_path: Path) -> None:
    async with forkable(tmp_path) as gym:
        before = read_files(tmp_path)
        await gym.fork(1)
        assert read_files(tmp_path) == before
        assert gym.output.with_name("forks_aggregate_metrics.json").exists()


async def test_a_turn_from_the_end_and_a_turn_of_zero(tmp_path: Path) -> None:
    async with forkable(tmp_path) as gym:
        (row,) = await gym.fork(-1, 1, task=0)
        calls = count_calls(read_parent(gym, row))
        assert row[FORK_KEY]["turn"] == calls - 1
    folder = tmp_path / "zero"
    folder.mkdir()
    async with forkable(folder) as gym:
        rows = await gym.fork(0, 2, task=1)
        assert [row[FORK_KEY]["turn"] for row in rows] == [0, 0]
        assert all(REPLAY_KEY not in row for row in rows)
        assert all(call.untrained is None for row in rows for call in read_calls(row))


async def test_the_cost_is_told_before_anything_runs(tmp_path: Path) -> None:
    async with forkable(tmp_path) as gym:
        (parent,) = find_parents(gym.run, 2, task=0)
        row = read_rows(gym.rows)[0]
        sampled = [len(call.tokens.generated) for call in read_calls(row) if call.tokens]
        assert (parent.shared_tokens, parent.later_tokens) == (sum(sampled[:2]), sum(sampled[2:]))
        (line,) = describe_cost([parent], 8)
        assert line == (
            f"task 0, repeat 0: 8 forks after call 2 share 2 calls ({sum(sampled[:2]):,} sampled tokens) and make "
            f"about {8 * len(sampled[2:]):,} ({8 * sum(sampled[2:]):,})"
        )
        (parent,) = find_parents(gym.run, 1, task=0)
        (line,) = describe_cost([parent], 1)
        assert line.startswith("task 0, repeat 0: 1 fork after call 1 shares 1 call (")
        assert ") and makes about " in line


@pytest.mark.parametrize(
    ("turn", "selection", "said"),
    [
        (99, {}, r"task 0, repeat 0 has \d answered calls, and no turn 99"),
        (-99, {}, r"no turn -99"),
        (1, {"task": 77}, r"has no task 77"),
        (1, {"task": 0, "repeat": 5}, r"no record of task 0, repeat 5"),
    ],
)
async def test_a_fork_that_cannot_be_is_refused(
    tmp_path: Path, turn: int, selection: dict[str, int], said: str
) -> None:
    async with forkable(tmp_path) as gym:
        with pytest.raises(ConfigError, match=said):
            find_parents(gym.run, turn, **selection)


async def test_a_run_whose_records_are_deleted_cannot_be_forked(tmp_path: Path) -> None:
    async with forkable(tmp_path, keeps=False) as gym:
        with pytest.raises(ConfigError, match=r"deleted with its row safe.*keep_attempts=all"):
            find_parents(gym.run, 1)


async def test_another_environment_is_refused_with_both_values(tmp_path: Path) -> None:
    async with forkable(tmp_path) as gym:
        manifest = orjson.loads(gym.run.files.manifest.read_bytes())
        agent = ENVIRONMENT.agents()[0]
        manifest["identity"]["config"][agent]["responses_api_agents"]["simple_agent"]["max_steps"] = 3
        gym.run.files.manifest.write_bytes(orjson.dumps(manifest))
        with pytest.raises(ConfigError, match=r"max_steps: 3 -> "):
            await gym.fork(1)


async def test_an_interrupted_fork_goes_on_at_its_own_next_call(tmp_path: Path) -> None:
    async with forkable(tmp_path) as gym:
        first, second = await gym.fork(1, task=0)
        gym.output.write_bytes(orjson.dumps(first) + b"\n")  # as after a kill before the second row
        _, again = await gym.fork(1, task=0, existing=Existing.RESUME)
    outputs = [[item.get("call_id") for item in row["response"]["output"]] for row in (again, second)]
    assert outputs[0] == outputs[1]
    assert again[FORK_KEY] == second[FORK_KEY]
    calls = second[REPLAY_KEY]["calls_replayed"] + second[REPLAY_KEY]["calls_live"]
    assert calls > 2
    told = again[REPLAY_KEY]
    assert (told["mode"], told["source"]) == ("continue", "0.1.a0")
    assert (told["calls_replayed"], told["calls_live"]) == (calls, 0)


async def test_what_is_not_forked_is_told(tmp_path: Path) -> None:
    async with forkable(tmp_path) as gym:
        assert [*describe_left_out(gym.run, find_parents(gym.run, -1))] == []
        (copies,) = describe_left_out(gym.run, find_parents(gym.run, 3, task=0))
        assert "those of 1 of 1 parents" in copies
        store(gym.rows.with_name("more.jsonl"), [*read_rows(gym.rows), scored_row(2, 0)])
        more = StoredRun(gym.rows.with_name("more.jsonl"))
        (missing,) = describe_left_out(more, find_parents(gym.run, 1))
        assert "not forked: 1 (first: task 2, repeat 0)" in missing
        assert [*describe_left_out(more, find_parents(gym.run, 1, task=0))] == []


async def test_a_rewind_says_so_in_its_row(tmp_path: Path) -> None:
    async with forkable(tmp_path) as gym:
        (row,) = await gym.fork(1, 1, task=0, mode=ReplayMode.REWIND)
        assert row[REPLAY_KEY]["mode"] == "rewind"


async def test_a_rollout_that_still_runs_is_forked(tmp_path: Path) -> None:
    # The second call of the parent gets no answer.
    hang = {"do": "hang", "times": 1, "match": "tool_call_id"}
    async with forkable(tmp_path, faults=[hang], is_over=False) as gym:
        folder = tmp_path / "out_attempts" / "0.0.a0"
        await until(lambda: read_attempt(folder).list_answered())
        rows = await gym.fork(1, 3, task=0)
        assert not gym.collecting.done()
        assert {row[REPLAY_KEY]["calls_replayed"] for row in rows} == {1}
        (shared,) = {row["response"]["output"][0]["call_id"] for row in rows}
        assert shared in str(read_attempt(folder).list_answered()[0].replies)
        with pytest.raises(ConfigError, match="has 1 answered call, and no turn 2"):
            find_parents(gym.run, 2)
