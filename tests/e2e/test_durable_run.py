"""A durable run whose collector and servers are killed in the middle of an attempt, and which is resumed.

The gym and its collector are one process tree, which a SIGKILL ends as a whole; the engine stub outlives it and counts.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.engines.attempts.record import read_attempt
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rows.keys import REPLAY_KEY, TIMING_KEY
from nemo_gym.tokens.records import RECORD_FIELD
from tests.e2e.gym_run import GymRun, Row, check_books, rollout_of
from tests.our_environments import OUR_ENVIRONMENTS, OurEnvironment
from tests.waiting import wait_until, wait_until_gone

WITHIN_S = 120.0
ENVIRONMENTS = {each.name: each for each in OUR_ENVIRONMENTS}
ENVIRONMENT = ENVIRONMENTS["workplace_assistant"]
PROBES = 3
"""The calls by which every start of a run checks the engine."""
WENT_ON = "went on where an earlier one was interrupted (`_ng_replay` in their rows)"


def engine_for(
    folder: Path, *faults: dict[str, Any], environment: OurEnvironment = ENVIRONMENT, **options: Any
) -> EngineProcess:
    script = folder / "gold.yaml"
    script.write_text(json.dumps([*environment.gold(), {"turns": [{"text": "hello"}]}]))
    return EngineProcess(EngineOptions(policy="script", script=script, faults=list(faults), **options))


def durable_run(
    folder: Path,
    engine: EngineProcess,
    *more: str,
    environment: OurEnvironment = ENVIRONMENT,
    durability: str = "process",
) -> GymRun:
    folder.mkdir(exist_ok=True)
    files = [*map(str, environment.config_files), "responses_api_models/vllm_model/configs/vllm_model.yaml"]
    return GymRun(
        folder,
        f"+config_paths=[{','.join(files)}]",
        f"+policy_base_url={engine.base_url}",
        "+policy_api_key=none",
        "+policy_model_name=mock",
        "++policy_model.responses_api_models.vllm_model.return_token_id_information=true",
        "+num_samples_in_parallel=1",
        f"+durability={durability}",
        *more,
    )


def read_stats(engine: EngineProcess) -> dict[str, Any]:
    with urllib.request.urlopen(engine.root_url + "/stats", timeout=30) as answer:
        stats: dict[str, Any] = json.loads(answer.read())
    return stats


def count_asked(engine: EngineProcess) -> int:
    return int(read_stats(engine)["requests"].get("/v1/chat/completions", 0))


def count_answered(folder: Path) -> dict[str, int]:
    """The answered calls that the records of attempts have, by attempt."""
    return {path.name: len(read_attempt(path).list_answered()) for path in sorted(folder.glob("*.a*"))}


def strip(row: Row) -> Row:
    """A row without ids and times, and without what it says of its replay."""
    about = (REPLAY_KEY, TIMING_KEY)
    text = json.dumps({key: value for key, value in row.items() if key not in about})
    ids = ("id", "call_id", "created_at", "completed_at")
    stripped: Row = json.loads(
        text, object_hook=lambda each: {key: value for key, value in each.items() if key not in ids}
    )
    return stripped


def list_stripped(run: GymRun) -> list[Row]:
    return [strip(row) for row in sorted(run.rows(), key=rollout_of)]


def count_calls(row: Row) -> int:
    return sum(RECORD_FIELD in item for item in row["response"]["output"])


def test_a_killed_run_goes_on_at_its_next_call(tmp_path: Path) -> None:
    with engine_for(tmp_path) as engine:
        with durable_run(tmp_path / "whole", engine) as whole:
            code, summary = whole.finish(WITHIN_S)
        assert code == 0, (summary, whole.errors[-3000:])
        assert not RunFiles.from_output(whole.output).attempts.exists(), "every row is safe"
        asked = count_asked(engine)
    calls = sum(map(count_calls, whole.rows()))
    assert asked - calls == PROBES
    # The third call of the second task never gets its answer.
    lost = {"do": "hang", "times": 1, "match": "00000047"}
    folder = tmp_path / "killed"
    with engine_for(tmp_path, lost) as engine:
        with durable_run(folder, engine) as killed:
            killed.wait_for_servers()
            wait_until(lambda: read_stats(engine)["faults"].get("hang") == 1)
            assert sum(1 for _ in (folder / "out").glob("rollouts_attempts/*.a0")) == 1
        with durable_run(folder, engine, "+resume_from_cache=true", durability="off") as refused:
            code, told = refused.finish(WITHIN_S)
        assert (code, "records of interrupted attempts" in str(told)) == (2, True), (told, refused.errors)
        with durable_run(folder, engine, "+resume_from_cache=true") as resumed:
            code, summary = resumed.finish(WITHIN_S)
        assert code == 0, (summary, resumed.errors[-3000:])
        asked = count_asked(engine)
    check_books(resumed, len(ENVIRONMENT.examples()), 1)
    assert list_stripped(resumed) == list_stripped(whole)
    assert asked == 3 * PROBES + calls + 1, "the lost call alone is asked again"
    (about,) = [row[REPLAY_KEY] for row in resumed.rows() if REPLAY_KEY in row]
    assert about["calls_replayed"] == 2
    assert about["mode"] == "continue"
    assert about["observations_compared"] > 1
    assert not (folder / "out" / "rollouts_attempts").exists()
    assert f"1 attempt {WENT_ON}" in summary["notes"]


# Agents with tools, with steps of an environment, and with a program in a sandbox.
@pytest.mark.parametrize(
    "name", ["example_session_state_mgmt", "workplace_assistant", "gymnasium", "code_repair"]
)
def test_all_attempts_that_were_killed_in_their_middle_go_on_and_pay_only_what_is_left(
    tmp_path: Path, name: str
) -> None:
    environment = ENVIRONMENTS[name]
    folder, records = tmp_path / "killed", tmp_path / "killed" / "out" / "rollouts_attempts"
    with engine_for(tmp_path, environment=environment, latency_s="0.5") as engine:
        shape = ("++num_samples_in_parallel=8", "+limit=4", "+num_repeats=2")
        with durable_run(folder, engine, *shape, environment=environment) as killed:
            servers = killed.wait_for_servers().values()
            wait_until(lambda: len([each for each in count_answered(records).values() if each]) >= 4)
        for server in servers:
            wait_until_gone(int(server["pid"]))
        wait_until(lambda: not read_stats(engine)["in_flight"])
        kept, before, finished = (
            count_answered(records),
            count_asked(engine),
            list(map(rollout_of, killed.rows())),
        )
        with durable_run(
            folder, engine, *shape, "+resume_from_cache=true", environment=environment
        ) as resumed:
            code, summary = resumed.finish(WITHIN_S)
        assert code == 0, (summary, resumed.errors[-3000:])
        paid = count_asked(engine) - before
    rows = [row for row in resumed.rows() if rollout_of(row) not in finished]
    assert len(finished) + len(rows) == 2 * min(4, len(environment.examples()))
    told = {f"{task}.{repeat}.a0": row.get(REPLAY_KEY) for row in rows for task, repeat in [rollout_of(row)]}
    for attempt, about in told.items():
        assert (about["calls_replayed"] if about else 0) == kept.get(attempt, 0)
    went_on = [about for about in told.values() if about]
    assert f"{len(went_on)} attempts {WENT_ON}" in summary["notes"]
    assert not any("could not go on" in note for note in summary["notes"])
    assert resumed.failures() == []
    live = [row[REPLAY_KEY]["calls_live"] if REPLAY_KEY in row else count_calls(row) for row in rows]
    assert paid == PROBES + sum(live)


def test_an_attempt_goes_on_after_an_error_of_the_engine(tmp_path: Path) -> None:
    with engine_for(tmp_path, {"do": "http_500", "times": 1, "match": "00000047"}) as engine:
        with durable_run(tmp_path / "run", engine) as run:
            code, summary = run.finish(WITHIN_S)
        assert code == 0, (summary, run.errors[-3000:])
    (about,) = [row[REPLAY_KEY] for row in run.rows() if REPLAY_KEY in row]
    assert about["calls_replayed"] == 2
    assert f"1 attempt {WENT_ON}" in summary["notes"]


def test_an_attempt_whose_judge_failed_asks_the_judge_alone_again(tmp_path: Path) -> None:
    judged = ENVIRONMENTS["equivalence_llm_judge"]
    asked = []
    for faults in ([], [{"do": "http_500", "times": 1, "match": "frozen water"}]):
        folder = tmp_path / str(len(faults))
        folder.mkdir()
        with engine_for(folder, *faults, environment=judged) as engine:
            with durable_run(folder / "run", engine, "+limit=2", environment=judged) as run:
                code, summary = run.finish(WITHIN_S)
            assert code == 0, (summary, run.errors[-3000:])
            asked.append(count_asked(engine))
    assert [row["reward"] for row in run.rows()] == [1.0, 1.0]
    (about,) = [row[REPLAY_KEY] for row in run.rows() if REPLAY_KEY in row]
    assert (about["calls_replayed"], about["calls_live"]) == (1, 0)
    assert asked[1] == asked[0] + 1, "the failed call of the judge is asked again, and none of the policy"
