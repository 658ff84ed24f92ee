"""Which attempt continues which: rules, with records that a double of the agents leaves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import orjson
import pytest

from nemo_gym.engines.attempts.noise import CLASSES
from nemo_gym.engines.attempts.record import read_attempt
from nemo_gym.failures import Boundary, ConfigError, Failure
from nemo_gym.rollouts.lookback.forks import refuse_unsafe
from nemo_gym.rollouts.output.attempt_records import AttemptRecords, list_attempts
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult, classify
from nemo_gym.rollouts.run.durable_attempts import DurableAttempts, begin_durable, find_unsafe
from nemo_gym.rollouts.run.options import DurabilityOptions, NoiseClass
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.keys import REPLAY_KEY
from nemo_gym.serving.durable.names import new_run, parse_name
from nemo_gym.serving.durable.plans import read_plan
from nemo_gym.transport import Caller, Directory, InMemoryTransport
from tests.rollouts.doubles import scored
from tests.rollouts.recorded_attempts import leave_attempt

IDENTITY = RolloutId(0, 0)
TASK = PlannedAttempt(IDENTITY, "agent", IDENTITY.head() + b'"responses_create_params":{"input":"x"}}')
LOST = Failure(Boundary.VERIFIER, "session_lost", "the session is lost", retryable=True)
GONE = Failure(Boundary.ENGINE, "connect_refused", "the engine is gone", retryable=True)
WRONG = Failure(Boundary.AGENT, "KeyError", "a bug")
LATE = Failure(Boundary.DEADLINE, "rollout_deadline", "too late", retryable=True)
MISSING = Failure(Boundary.ENGINE, "replay_missing", "no record", retryable=True)
DISAGREES = Failure(Boundary.ENGINE, "replay_mismatch", "call 2 differs", retryable=True)


JUDGED = {"reward": 0.0, "_ng_failure_class": "judge_failed", "response": {"output": []}}


class Played(NamedTuple):
    """What an attempt leaves, and how it ends."""

    answered: int
    result: Failure | AgentAnswer | None = None
    replayed: int = 0
    mismatch: bool = False


class Agents:
    """Attempts that leave records and end as they are told."""

    def __init__(self, folder: Path, plays: Sequence[Played]) -> None:
        self.folder = folder
        self.plays = list(plays)
        self.sources: list[str | None] = []

    async def attempt(
        self, task: PlannedAttempt, session: str | None = None, *, continues: bool = False
    ) -> AttemptResult:
        name = parse_name(session or "")
        assert name is not None
        folder = self.folder / name.folder
        plan = read_plan(folder)
        self.sources.append(plan.source.name if plan is not None else None)
        play = self.plays.pop(0)
        leave_attempt(folder, answered=play.answered, replayed=play.replayed, mismatch=play.mismatch)
        return play.result or scored(task)


async def play(
    folder: Path, *plays: Played, **options: Any
) -> tuple[DurableAttempts, Agents, list[AttemptResult]]:
    records = AttemptRecords(folder, new_run())
    agents = Agents(folder, plays)
    caller = Caller(Directory({}), InMemoryTransport())
    durable = DurabilityOptions(durability="process", **options)
    attempts = DurableAttempts(agents, records, durable, caller, [])  # type: ignore[arg-type]
    return attempts, agents, [await attempts.attempt(TASK) for _ in plays]


@pytest.mark.parametrize("failure", [LOST, GONE])
async def test_a_failure_of_the_machinery_is_continued(tmp_path: Path, failure: Failure) -> None:
    _, agents, results = await play(tmp_path, Played(3, failure), Played(5, replayed=3))
    assert agents.sources == [None, "0.0.a0"]
    assert isinstance(results[1], AgentAnswer)
    about = results[1].row[REPLAY_KEY]
    assert (about["source"], about["calls_replayed"], about["calls_live"]) == ("0.0.a0", 3, 2)
    assert about["observations_compared"] == 3


async def test_the_bytes_of_a_row_get_its_replay_at_the_end(tmp_path: Path) -> None:
    attempts, _, _ = await play(tmp_path, Played(1, LOST))
    leave_attempt(tmp_path / "0.0.a1", answered=1, replayed=1)
    answer = AgentAnswer({"n": 1}, b'{"n":123456789012345678901234567890}')
    result = attempts.check_replay(answer, read_attempt(tmp_path / "0.0.a1"), 1, "0.0.a0", 0.25)
    assert isinstance(result, AgentAnswer)
    assert result.encoded is not None
    assert result.encoded.startswith(b'{"n":123456789012345678901234567890,"_ng_replay":{"source":"0.0.a0"')
    assert orjson.loads(result.encoded)[REPLAY_KEY]["seconds"] == 0.25


async def test_an_attempt_whose_judge_failed_is_continued_once(tmp_path: Path) -> None:
    failed = AgentAnswer(JUDGED)
    _, agents, _ = await play(tmp_path, Played(3, failed), Played(3, failed, replayed=3), Played(3))
    assert agents.sources == [None, "0.0.a0", None]


async def test_a_row_that_its_agent_marked_as_failed_is_not_continued(tmp_path: Path) -> None:
    failed = AgentAnswer({**JUDGED, "_ng_failure_class": "agent_run_error"})
    _, agents, _ = await play(tmp_path, Played(3, failed), Played(3))
    assert agents.sources == [None, None]


@pytest.mark.parametrize("failure", [WRONG, LATE])
async def test_a_failure_of_the_task_or_its_time_is_not_continued(tmp_path: Path, failure: Failure) -> None:
    _, agents, _ = await play(tmp_path, Played(3, failure), Played(3))
    assert agents.sources == [None, None]


MAIL = {
    "agent": {
        "responses_api_agents": {"a": {"resources_server": {"type": "resources_servers", "name": "mail"}}}
    },
    "other": {
        "responses_api_agents": {"a": {"resources_server": {"type": "resources_servers", "name": "safe"}}}
    },
    "mail": {"resources_servers": {"m": {"replay": "unsafe"}}},
    "safe": {"resources_servers": {"m": {"replay": "safe"}}},
}


async def test_an_attempt_whose_tools_must_not_be_repeated_begins_afresh(tmp_path: Path) -> None:
    assert find_unsafe(MAIL, MAIL) == {"agent": "mail"}
    attempts, agents, _ = await play(tmp_path, Played(3, LOST))
    attempts.unsafe = find_unsafe(MAIL, MAIL)
    agents.plays.append(Played(3))
    await attempts.attempt(TASK)
    assert agents.sources == [None, None]
    assert (await attempts.end())[
        0
    ] == "interrupted attempts begin afresh, because of replay: unsafe of `mail`"
    with pytest.raises(ConfigError, match=r"`agent` cannot be forked: `mail` says replay: unsafe"):
        refuse_unsafe(["other", "agent"], MAIL)


async def test_an_attempt_without_an_answered_call_begins_afresh(tmp_path: Path) -> None:
    _, agents, _ = await play(tmp_path, Played(0, LOST), Played(3))
    assert agents.sources == [None, None]


async def test_the_same_failure_at_the_same_call_twice_is_followed_by_a_fresh_attempt(tmp_path: Path) -> None:
    plays = [Played(3, LOST), Played(3, LOST, replayed=3), Played(4)]
    _, agents, _ = await play(tmp_path, *plays)
    assert agents.sources == [None, "0.0.a0", None]


async def test_a_later_failure_is_continued_again_and_one_during_the_replay_from_the_longer_record(
    tmp_path: Path,
) -> None:
    plays = [Played(3, LOST), Played(5, LOST, replayed=3), Played(2, GONE, replayed=2), Played(6, replayed=5)]
    _, agents, _ = await play(tmp_path, *plays)
    assert agents.sources == [None, "0.0.a0", "0.0.a1", "0.0.a1"]


@pytest.mark.parametrize(("on_mismatch", "is_retryable"), [("restart", True), ("fail", False)])
async def test_a_mismatch_is_a_failure_and_then_a_fresh_attempt(
    tmp_path: Path, on_mismatch: str, is_retryable: bool
) -> None:
    plays = [Played(3, LOST), Played(1, DISAGREES, replayed=1, mismatch=True), Played(3)]
    _, agents, results = await play(tmp_path, *plays, on_mismatch=on_mismatch)
    failure = results[1]
    assert isinstance(failure, Failure)
    assert (failure.code, failure.retryable) == ("replay_mismatch", is_retryable)
    assert agents.sources == [None, "0.0.a0", None]


async def test_an_agent_that_goes_on_after_a_mismatch_has_failed_all_the_same(tmp_path: Path) -> None:
    _, _, results = await play(tmp_path, Played(3, LOST), Played(4, replayed=1, mismatch=True))
    assert isinstance(results[1], Failure)
    assert results[1].message == "call 2 differs"


async def test_the_closing_note_counts_the_rows_of_attempts_that_went_on(tmp_path: Path) -> None:
    plays = [Played(2, LOST), Played(4, LOST, replayed=2), Played(5, replayed=4)]
    attempts, _, _ = await play(tmp_path, *plays)
    (went_on, _) = await attempts.end()
    assert went_on == "1 attempt went on where an earlier one was interrupted (`_ng_replay` in their rows)"


@pytest.mark.parametrize(("torn_at", "began_afresh"), [(1, 0), (0, 1)])
async def test_the_closing_note_counts_damaged_records(
    tmp_path: Path, torn_at: int, began_afresh: int
) -> None:
    attempts, agents, _ = await play(tmp_path, Played(2, LOST))
    (path,) = (tmp_path / "0.0.a0").iterdir()
    answers = [at for at, line in enumerate(path.read_bytes().split(b"\n")) if b"completed_at" in line]
    lines = path.read_bytes().split(b"\n")
    lines[answers[torn_at]] = lines[answers[torn_at]][:9]
    path.write_bytes(b"\n".join(lines[: answers[torn_at] + 1]))
    agents.plays.append(Played(3, replayed=1))
    await attempts.attempt(TASK)
    assert agents.sources == [None, None if began_afresh else "0.0.a0"]
    note = next(note for note in await attempts.end() if "damaged" in note)
    assert note.startswith("1 record of interrupted attempts had damaged lines")
    assert "(first: 0.0.a0)" in note
    assert f"{began_afresh} rollout" in note


async def test_the_closing_note_of_one_kept_attempt_is_singular(tmp_path: Path) -> None:
    attempts, _, _ = await play(tmp_path, Played(2, LOST))
    assert " kept of 1 attempt in " in (await attempts.end())[-1]


@pytest.mark.parametrize(
    "play_again",
    [Played(1, DISAGREES, replayed=1, mismatch=True), Played(2), Played(0, MISSING)],
    ids=["another request", "no call replayed", "no record"],
)
async def test_the_closing_note_tells_of_attempts_that_could_not_go_on(
    tmp_path: Path, play_again: Played
) -> None:
    attempts, _, _ = await play(tmp_path, Played(2, LOST), play_again)
    (could_not, _) = await attempts.end()
    assert could_not.startswith("1 attempt could not go on where an earlier one was interrupted (first: ")


async def test_an_attempt_that_fails_before_its_first_call_has_not_gone_on(tmp_path: Path) -> None:
    attempts, _, _ = await play(tmp_path, Played(2, LOST), Played(0, LOST))
    (note,) = await attempts.end()
    assert note.startswith("attempt records")


async def test_an_agent_that_ends_early_has_not_repeated_itself(tmp_path: Path) -> None:
    _, _, results = await play(tmp_path, Played(3, LOST), Played(2, replayed=2))
    assert isinstance(results[1], Failure)
    assert results[1].message == "the replayed attempt ended after 2 of 3 recorded calls"


@pytest.mark.parametrize(
    ("keeps", "failure", "kept"),
    [
        ("none", None, 0),
        ("none", WRONG, 0),
        ("none", LOST, 1),
        ("failed", WRONG, 1),
        ("failed", None, 0),
        ("all", None, 1),
    ],
)
async def test_records_are_kept_as_long_as_they_are_of_use(
    tmp_path: Path, keeps: str, failure: Failure | None, kept: int
) -> None:
    attempts, _, (result,) = await play(tmp_path, Played(2, failure), keep_attempts=keeps)
    attempts.note_settled(TASK, classify(TASK, result))
    assert len(list(list_attempts(tmp_path))) == kept
    assert ["gym forget" in note for note in await attempts.end()] == [True] * kept


async def test_a_model_server_that_writes_elsewhere_is_refused(tmp_path: Path) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"written": ".proof"}'})

    config: dict[str, Any] = {
        "policy": {"responses_api_models": {"vllm_model": {}}},
        "env": {"resources_servers": {"x": {}}},
    }
    caller = Caller(Directory({"policy": ["http://policy"]}), InMemoryTransport({"http://policy": answer}))
    with pytest.raises(ConfigError, match="no disk is shared"):
        await begin_durable(
            Agents(tmp_path, []),  # type: ignore[arg-type]
            AttemptRecords(tmp_path, new_run()),
            DurabilityOptions(),
            caller,
            config.keys(),
            config,
        )


def test_the_declared_classes_are_those_that_exist() -> None:
    assert set(get_args(NoiseClass)) == set(CLASSES)


def test_the_collector_of_a_durable_run_needs_no_web_framework() -> None:
    """Its import takes longer than hundreds of rollouts of the gym."""
    code = "import sys, nemo_gym.rollouts.run.durable_attempts; sys.exit('fastapi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
