"""A durable run whose collector and servers are killed in the middle of an attempt, and which is resumed.

The gym and its collector are one process tree, which a SIGKILL ends as a whole; the engine stub outlives it and counts.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rows.keys import REPLAY_KEY, TIMING_KEY
from nemo_gym.tokens.records import RECORD_FIELD
from tests.e2e.gym_run import GymRun, Row, check_books, rollout_of
from tests.our_environments import OUR_ENVIRONMENTS
from tests.waiting import wait_until

WITHIN_S = 120.0
ENVIRONMENT = next(each for each in OUR_ENVIRONMENTS if each.name == "workplace_assistant")


def engine_for(folder: Path, *faults: dict[str, Any]) -> EngineProcess:
    script = folder / "gold.yaml"
    script.write_text(json.dumps([*ENVIRONMENT.gold(), {"turns": [{"text": "hello"}]}]))
    return EngineProcess(EngineOptions(policy="script", script=script, faults=list(faults)))


def durable_run(folder: Path, engine: EngineProcess, *more: str) -> GymRun:
    folder.mkdir(exist_ok=True)
    return GymRun(
        folder,
        f"+config_paths=[resources_servers/{ENVIRONMENT.name}/configs/{ENVIRONMENT.name}.yaml,"
        "responses_api_models/vllm_model/configs/vllm_model.yaml]",
        f"+policy_base_url={engine.base_url}",
        "+policy_api_key=none",
        "+policy_model_name=mock",
        "++policy_model.responses_api_models.vllm_model.return_token_id_information=true",
        "+num_samples_in_parallel=1",
        "+durability=process",
        *more,
    )


def read_stats(engine: EngineProcess) -> dict[str, Any]:
    with urllib.request.urlopen(engine.root_url + "/stats", timeout=30) as answer:
        stats: dict[str, Any] = json.loads(answer.read())
    return stats


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
        assert any("attempt records" in note for note in summary["notes"])
        asked = read_stats(engine)["requests"]["/v1/chat/completions"]
    calls = sum(map(count_calls, whole.rows()))
    probes = asked - calls
    # The third call of the second task never gets its answer.
    lost = {"do": "hang", "times": 1, "match": "00000047"}
    folder = tmp_path / "killed"
    with engine_for(tmp_path, lost) as engine:
        with durable_run(folder, engine) as killed:
            killed.wait_for_servers()
            wait_until(lambda: read_stats(engine)["faults"].get("hang") == 1)
            assert sum(1 for _ in (folder / "out").glob("rollouts_attempts/*.a0")) == 1
        with durable_run(folder, engine, "+resume_from_cache=true") as resumed:
            code, summary = resumed.finish(WITHIN_S)
        assert code == 0, (summary, resumed.errors[-3000:])
        asked = read_stats(engine)["requests"]["/v1/chat/completions"]
    check_books(resumed, len(ENVIRONMENT.examples()), 1)
    assert list_stripped(resumed) == list_stripped(whole)
    assert asked == 2 * probes + calls + 1, "the lost call alone is asked again"
    (about,) = [row[REPLAY_KEY] for row in resumed.rows() if REPLAY_KEY in row]
    assert about["calls_replayed"] == 2
    assert about["mode"] == "continue"
    assert about["observations_compared"] > 1
    assert not (folder / "out" / "rollouts_attempts").exists()
