"""A gym in this process whose attempts are durable, with the engine stub beside it, which counts.

A kill after the k-th call is a record that ends there: `cut_record` makes one of a whole record, which is what a killed
process leaves. The next attempt continues it.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.config.loading import load
from nemo_gym.failures import Failure
from nemo_gym.launch.inline import InlineGym, inline
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rollouts.output.attempt_records import AttemptRecords, list_attempts
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.agent_attempter import AgentAttempter
from nemo_gym.rollouts.run.answer import AttemptResult
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.durable_attempts import DurableAttempts, begin_durable
from nemo_gym.rollouts.run.options import DurabilityOptions
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.keys import REPLAY_KEY, TIMING_KEY
from nemo_gym.serving.durable.names import new_run
from nemo_gym.tokens.records import RECORD_FIELD
from tests.our_environments import OUR_ENVIRONMENTS, OurEnvironment

Row = dict[str, Any]
STATEFUL = (
    "blackjack",
    "code_repair",
    "efficient_tool_use",
    "example_session_state_mgmt",
    "gymnasium",
    "text_gymnasium",
    "workplace_assistant",
)
ENVIRONMENTS = {each.name: each for each in OUR_ENVIRONMENTS}
_VLLM = "responses_api_models/vllm_model/configs/vllm_model.yaml"
_TOKENS = "++policy_model.responses_api_models.vllm_model.return_token_id_information=true"


@dataclass(slots=True)
class DurableGym:
    """A durable run in a gym in this process."""

    gym: InlineGym
    count_engine_calls: Callable[[], int]
    attempts: DurableAttempts

    @property
    def records(self) -> AttemptRecords:
        return self.attempts.records

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        return await self.attempts.attempt(task)

    async def run(self, task: PlannedAttempt) -> Row:
        """The row of an attempt that succeeds."""
        result = await self.attempt(task)
        assert not isinstance(result, Failure), result
        return result.row

    def leave_record(self, identity: RolloutId, files: dict[str, bytes]) -> Path:
        """Leave a record as that of the latest attempt, which was killed."""
        self.records.refuse_earlier(identity)
        folder = self.records.folder / self.records.name_next(identity).folder
        folder.mkdir(mode=0o700)
        for name, content in files.items():
            named = re.sub(rb'"attempt":"[^"]*"', b'"attempt":"%b"' % folder.name.encode(), content)
            (folder / name).write_bytes(named)
        return folder


@asynccontextmanager
async def durable_gym(
    folder: Path, environments: Iterable[str], *overrides: str, scenes: Any = None, **options: Any
) -> AsyncIterator[DurableGym]:
    """A durable run over some environments, whose policy follows the gold or `scenes`."""
    named = [ENVIRONMENTS[name] for name in environments]
    gold = [scene for each in named for scene in each.gold()] if scenes is None else scenes
    script = folder / "script.yaml"
    script.write_text(json.dumps(gold))
    files = [str(path) for each in named for path in each.config_files]
    with EngineProcess(EngineOptions(policy="script", script=script)) as engine:

        def count() -> int:
            with urllib.request.urlopen(engine.root_url + "/stats", timeout=30) as answer:
                return int(json.loads(answer.read())["requests"].get("/v1/chat/completions", 0))

        async with durable_over(
            folder, engine.base_url, files, *overrides, count_engine_calls=count, **options
        ) as gym:
            yield gym


@asynccontextmanager
async def durable_over(
    folder: Path,
    engine_url: str,
    files: Iterable[str],
    *overrides: str,
    count_engine_calls: Callable[[], int],
    **options: Any,
) -> AsyncIterator[DurableGym]:
    """A durable run of the servers that `files` declare, over an engine that counts its calls."""
    policy = [f"+policy_base_url={engine_url}", "+policy_api_key=none", "+policy_model_name=mock"]
    calls = f"+model_call_capture_dir={folder / 'model_calls'}"
    given = [f"+config_paths=[{','.join([*files, _VLLM])}]", *policy, _TOKENS, calls, *overrides]
    async with inline(load(given, env_path=None)) as gym:
        found = DiscoveredGym(gym.config, gym.token, gym.transport)
        caller = found.caller()
        records = AttemptRecords(folder / "out_attempts", new_run())
        records.folder.mkdir()
        keeps = DurabilityOptions(durability="process", keep_attempts="all", **options)
        attempts = await begin_durable(
            AgentAttempter(caller), records, keeps, caller, gym.config.keys(), gym.config
        )
        yield DurableGym(gym, count_engine_calls, attempts)


def plan_examples(environment: OurEnvironment) -> list[PlannedAttempt]:
    """One attempt at each example task, by its first agent."""
    agent = environment.agents()[0]
    planned = []
    for number, row in enumerate(environment.examples()):
        identity = RolloutId(number, 0)
        row = {**row, "agent_ref": {"type": "responses_api_agents", "name": agent}}
        planned.append(PlannedAttempt(identity, agent, identity.head() + orjson.dumps(row)[1:]))
    return planned


def read_files(folder: Path) -> dict[str, bytes]:
    """The files of a record, without the plan of its attempt."""
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


def cut_record(files: dict[str, bytes], calls: int, *, in_flight: bool) -> dict[str, bytes]:
    """The record as processes leave it that are killed after the answer `calls`, counted over all servers.

    `in_flight`: the next request had begun.
    """
    ends = sorted(line["completed_at"] for line in _read_lines(files) if "completed_at" in line)
    last = ends[calls - 1] if calls else 0.0
    next_begun = min(
        (line["started_at"] for line in _read_lines(files) if line.get("started_at", 0.0) > last),
        default=last,
    )
    until = next_begun if in_flight else last
    return {
        name: b"".join(
            line
            for line in content.lstrip().splitlines(keepends=True)
            if (each := json.loads(line)).get("completed_at", 0.0) <= last
            and max(each.get("started_at", 0.0), each.get("ended_at", 0.0)) <= until
        )
        for name, content in files.items()
    }


def _read_lines(files: dict[str, bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for content in files.values() for line in content.split(b"\n") if line]


def find_latest(gym: DurableGym, task: PlannedAttempt) -> Path:
    """The record of the latest attempt."""
    names = [each for each in list_attempts(gym.records.folder) if each.identity == task.identity]
    return gym.records.folder / max(names, key=lambda each: each.number).folder


def strip(row: Row) -> Row:
    """A row without times and random ids, and without what it says of its replay."""
    text = json.dumps({key: value for key, value in row.items() if key not in (REPLAY_KEY, TIMING_KEY)})
    dropped = ("id", "created_at", "completed_at", "call_id")
    stripped: Row = json.loads(
        text, object_hook=lambda each: {key: value for key, value in each.items() if key not in dropped}
    )
    return stripped


def count_calls(row: Row) -> int:
    return sum(RECORD_FIELD in item for item in row["response"]["output"])
