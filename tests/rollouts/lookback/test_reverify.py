from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest
from fastapi import Request
from pydantic import ConfigDict

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.failures import ConfigError
from nemo_gym.judge import JudgeError
from nemo_gym.rollouts.lookback.reverify import (
    ReverifySettings,
    Survey,
    find_environment,
    find_task_row,
    read_modes,
    reverify,
    servers_for,
)
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.output.manifest import AllowedChanges
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rows.identity import RolloutId
from nemo_gym.testing import InProcessGym
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.resources.test_server import Broken
from tests.rollouts.doubles import read_rows
from tests.rollouts.stored_runs import failure_row, judge_failure_row, scored_row, store
from tests.serving.environments import CounterEnvironment, ScriptedModel, text

AGENT = "match_agent"


class MatchConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    wanted: str = "yes"


class MatchRequest(BaseVerifyRequest):
    model_config = ConfigDict(extra="allow")

    answer: int


class MatchResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")

    extracted: str


class Match(SimpleResourcesServer):
    """Gives 1 for the wanted word. Its judge breaks at "break"."""

    config: MatchConfig

    async def verify(self, body: MatchRequest) -> MatchResponse:  # type: ignore[override]
        said = body.response.output_text
        if said == "break":
            raise JudgeError("out of order")
        return MatchResponse(**body.model_dump(), reward=float(said == self.config.wanted), extracted=said)


class Session(SimpleResourcesServer):
    """Knows a session only when it was opened."""

    async def seed_session(  # type: ignore[override]
        self, request: Request, body: BaseSeedSessionRequest
    ) -> BaseSeedSessionResponse:
        request.session["open"] = True
        return BaseSeedSessionResponse()

    async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:  # type: ignore[override]
        return BaseVerifyResponse(**body.model_dump(), reward=float(request.session.get("open", False)))


def response(words: str) -> dict[str, Any]:
    return {
        "id": "r",
        "created_at": 0,
        "model": "m",
        "object": "response",
        "output": [text(words)],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def gym_of(environment: type[SimpleResourcesServer] = Match, **options: Any) -> InProcessGym:
    gym = InProcessGym()
    gym.add(environment, "match", **options)
    references = {
        "resources_server": {"type": "resources_servers", "name": "match"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    gym.add(SimpleAgent, AGENT, **references)
    return gym


async def again(rows: Path, output: Path, gym: InProcessGym, **settings: Any) -> CollectSummary:
    seen = DiscoveredGym(gym.config, None, gym.transport)
    run = StoredRun(rows)
    try:
        limits = RunLimits(max_attempts=1)
        return await reverify(
            ReverifySettings(output, limits=limits, **settings),
            run,
            Survey.from_run(run),
            seen.caller(),
            seen,
        )
    finally:
        run.close()


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Three scored rollouts, one whose judge failed, one that never came to a verdict."""
    said = ["yes", "no", "yes"]
    scored = [
        scored_row(n, reward=1.0, agent=AGENT, response=response(word), extracted="old", stale=True)
        for n, word in enumerate(said)
    ]
    failures = [
        judge_failure_row(3, agent=AGENT, response=response("yes")),
        failure_row(4, agent=AGENT),
    ]
    return store(tmp_path / "run.jsonl", scored, failures)


async def test_every_rollout_gets_the_reward_that_its_environment_gives_now(
    rows: Path, tmp_path: Path
) -> None:
    summary = await again(rows, tmp_path / "new.jsonl", gym_of())
    assert summary.exit_code == 0
    new = {row["_ng_task_index"]: row for row in read_rows(tmp_path / "new.jsonl")}
    assert {task: row["reward"] for task, row in new.items()} == {0: 1.0, 1: 0.0, 2: 1.0, 3: 1.0}
    assert new[1]["extracted"] == "no"
    assert "stale" not in new[1], "what an earlier verifier said is gone"
    assert new[1]["answer"] == 1
    assert new[1]["_ng_reverified"] == {"reward_before": 1.0}
    assert new[3]["_ng_reverified"] == {"reward_before": None}
    assert new[3]["_ng_outcome"] == "completed"
    assert not [key for key in new[3] if key.startswith("_ng_failure")]
    (kept,) = read_rows(tmp_path / "new_failures.jsonl")
    assert kept["_ng_task_index"] == 4
    assert summary.agents[0].mean_reward == 0.75
    assert summary.agents[0].coverage == 80.0
    assert summary.notes == [
        "1 of 3 rewards changed; their mean went from 1.0000 to 0.6667",
        "1 rollouts whose judge had failed have a reward now",
        "1 rollouts failed without a response to verify; they remain failures",
    ]


async def test_the_seconds_of_the_earlier_run_are_kept_in_the_rows_and_not_told_as_those_of_this_one(
    tmp_path: Path,
) -> None:
    timing = {"total": 9.0, "model": 8.0, "verify": 1.0}
    stored = [
        scored_row(n, reward=1.0, agent=AGENT, response=response("yes"), _ng_timing=timing) for n in range(2)
    ]
    summary = await again(store(tmp_path / "run.jsonl", stored, []), tmp_path / "new.jsonl", gym_of())
    assert [agent.times for agent in summary.agents] == [None]
    assert [row["_ng_timing"] for row in read_rows(tmp_path / "new.jsonl")] == [timing, timing]


async def test_only_failed_judges_may_be_asked_again(rows: Path, tmp_path: Path) -> None:
    summary = await again(rows, tmp_path / "new.jsonl", gym_of(wanted="no"), judge_failed_only=True)
    new = {row["_ng_task_index"]: row for row in read_rows(tmp_path / "new.jsonl")}
    assert {task: row["reward"] for task, row in new.items()} == {0: 1.0, 1: 1.0, 2: 1.0, 3: 0.0}
    before = {row["_ng_task_index"]: row for row in read_rows(rows)}
    assert all(new[task].items() >= row.items() for task, row in before.items())
    assert "_ng_reverified" not in new[0]
    assert summary.exit_code == 0


async def test_a_judge_that_fails_again_stays_a_failure(tmp_path: Path) -> None:
    failures = [judge_failure_row(0, agent=AGENT, response=response("break"))]
    rows = store(tmp_path / "run.jsonl", [], failures)
    summary = await again(rows, tmp_path / "new.jsonl", gym_of())
    assert summary.exit_code == 3
    (failure,) = read_rows(tmp_path / "new_failures.jsonl")
    assert failure["_ng_failure_class"] == "judge_failed"
    assert failure["_ng_failure"]["message"] == "judge_failed: out of order"
    assert failure["response"]["output"][0]["content"][0]["text"] == "break"
    chained = await again(tmp_path / "new.jsonl", tmp_path / "newer.jsonl", gym_of(), judge_failed_only=True)
    assert chained.counters.failed == 1, "what came out can be verified again in turn"


async def test_without_the_task_rows_the_stored_ones_have_to_do(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "run_materialized_inputs.jsonl").unlink()
    gym = gym_of()
    summary = await again(rows, tmp_path / "new.jsonl", gym)
    failed = read_rows(tmp_path / "new_failures.jsonl")
    assert summary.counters.scored == 1, (
        "a verifier that echoes its request stumbles over its own earlier fields"
    )
    assert any("multiple values" in row["_ng_failure"]["message"] for row in failed)


@pytest.mark.parametrize("force", [False, True])
async def test_an_environment_that_does_not_say_so_is_not_verified_without_its_sessions(
    rows: Path, tmp_path: Path, force: bool
) -> None:
    work = again(rows, tmp_path / "new.jsonl", gym_of(Session), force=force)
    if not force:
        with pytest.raises(ConfigError, match=r"without their sessions at `match` \(unknown\)"):
            await work
        assert not (tmp_path / "new.jsonl").exists()
        return
    summary = await work
    assert [row["reward"] for row in read_rows(tmp_path / "new.jsonl")] == [1.0] * 4, "sessions are opened"
    assert any("+force=true" in note for note in summary.notes)


async def test_a_killed_reverification_goes_on_where_it_was(rows: Path, tmp_path: Path) -> None:
    output = tmp_path / "new.jsonl"
    await again(rows, output, gym_of())
    lines = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join(lines[:2]) + lines[2][:20])
    with pytest.raises(ConfigError, match="belongs to an earlier run"):
        await again(rows, output, gym_of())
    summary = await again(rows, output, gym_of(), existing=Existing.RESUME)
    assert (summary.counters.finished_before, summary.counters.scored, summary.resumed) == (2, 2, True)
    assert sorted(row["_ng_task_index"] for row in read_rows(output)) == [0, 1, 2, 3]
    with pytest.raises(ConfigError, match=r"match\.resources_servers\.Match\.wanted"):
        await again(rows, output, gym_of(wanted="maybe"), existing=Existing.RESUME)


async def test_rows_of_another_run_are_not_taken_for_verified(rows: Path, tmp_path: Path) -> None:
    output, allowed = tmp_path / "new.jsonl", AllowedChanges(everything=True)
    await again(rows, output, gym_of())
    store(rows, [*read_rows(rows), scored_row(7, agent=AGENT, response=response("yes"))])
    summary = await again(rows, output, gym_of(), existing=Existing.RESUME, allowed=allowed)
    assert (summary.counters.finished_before, summary.counters.scored) == (3, 1)
    other = [scored_row(n, agent=AGENT, response=response("other")) for n in range(3)]
    store(rows, other)
    with pytest.raises(ConfigError, match="has another response of task 0, repeat 0"):
        await again(rows, output, gym_of(), existing=Existing.RESUME, allowed=allowed)


async def test_a_reverified_row_is_not_marked_with_the_code_that_scored_it_before(
    rows: Path, tmp_path: Path
) -> None:
    marked = [{**row, "_ng_scored_by": "0123456789ab"} for row in read_rows(rows)]
    store(rows, marked)
    await again(rows, tmp_path / "new.jsonl", gym_of())
    assert not [row for row in read_rows(tmp_path / "new.jsonl") if "_ng_scored_by" in row]


async def test_a_run_is_not_written_over_itself(rows: Path) -> None:
    with pytest.raises(ConfigError, match="overwrite its input"):
        await again(rows, rows, gym_of())


def test_no_policy_is_needed() -> None:
    config = gym_of().config
    assert servers_for([AGENT], config) == {AGENT, "match"}
    with pytest.raises(ConfigError, match="has no `resources_server`"):
        servers_for(["match"], config)


async def test_rows_of_another_program_without_identities_are_verified(rows: Path, tmp_path: Path) -> None:
    kept = [{k: v for k, v in row.items() if not k.startswith("_ng_")} for row in read_rows(rows)]
    plain = tmp_path / "plain.jsonl"
    plain.write_text("".join(f"{orjson.dumps(row).decode()}\n" for row in kept))
    await again(plain, tmp_path / "new.jsonl", gym_of(), judge_failed_only=True)
    written = read_rows(tmp_path / "new.jsonl")
    assert [row["_ng_task_index"] for row in written] == list(range(len(kept)))


# --- One rollout ------------------------------------------------------------------------------------------------------


CONFIG = {
    "agent": {"responses_api_agents": {"simple": {"resources_server": {"name": "env"}}}},
    "alone": {"responses_api_agents": {"simple": {"port": 1}}},
}


def test_the_environment_of_an_agent_is_its_resources_server() -> None:
    assert find_environment("agent", CONFIG) == "env"
    for agent in ("alone", "unknown"):
        with pytest.raises(ConfigError, match=f"agent `{agent}` has no `resources_server`"):
            find_environment(agent, CONFIG)


async def test_the_mode_is_unknown_without_the_route() -> None:
    gym = InProcessGym()
    gym.add(CounterEnvironment, "env")
    gym.add(Broken, "stateless")
    gym.add(ScriptedModel, "model")
    assert await read_modes(gym.client().caller(), ["stateless", "model", "env", "env"]) == {
        "env": ReverifyMode.UNKNOWN,
        "model": ReverifyMode.UNKNOWN,
        "stateless": ReverifyMode.STATELESS,
    }


def test_a_row_without_its_task_row_loses_the_results_of_its_verifier(tmp_path: Path) -> None:
    path = store(tmp_path / "run.jsonl", [scored_row(3, extracted="old")], tasks=False)
    run = StoredRun(path)
    row = orjson.loads(find_task_row(run, RolloutId(3, 0)))
    run.close()
    assert (row["_ng_task_index"], row["_ng_rollout_index"]) == (3, 0)
    assert row["extracted"] == "old", "a field of unknown origin is kept"
    assert not {"response", "reward", "_ng_outcome"} & row.keys()
