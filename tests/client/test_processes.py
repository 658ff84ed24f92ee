"""`POST /rollouts` of a gym as users start it: `ng_run`, a process a server, and curl or the client before it."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nemo_gym.client import Gym, Rollout
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.testing.serving import LoopbackServers
from perf.running_gym import RunningGym, running_gym
from tests.waiting import wait_until

ENVIRONMENT = "example_single_tool_call"
CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
    "responses_api_models/vllm_model/configs/vllm_model.yaml"
)
MODEL = "policy_model.responses_api_models.vllm_model"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


class Processes(NamedTuple):
    running: RunningGym
    engine: MockEngine

    def open_sessions(self) -> int:
        with urllib.request.urlopen(f"{self.running.urls[ENVIRONMENT][0]}/_ng/stats", timeout=30) as answer:
            return int(json.load(answer)["sessions_open"])


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    engine = MockEngine(EngineOptions(model="mock", faults=[{"delay_s": 60, "match": "Wait"}]))
    with LoopbackServers() as servers:
        servers.enter(engine)
        overrides = [
            f"+config_paths=[{CONFIGS}]",
            f"+policy_base_url={engine.base_url}",
            "+policy_api_key=none",
            "+policy_model_name=mock",
            f"++{MODEL}.num_workers=2",
        ]
        with running_gym(overrides) as running:
            yield Processes(running, engine)


def task(text: str) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": text, "tools": [WEATHER]},
        "agent_ref": {"type": "responses_api_agents", "name": f"{ENVIRONMENT}_simple_agent"},
    }


def curl(gym: Gym, rows: list[dict[str, Any]], *more: str) -> subprocess.Popen[str]:
    """curl as docs/routes.md shows it, the rows on its standard input."""
    url = f"{gym.address.url}/rollouts?num_repeats=2&num_samples_in_parallel=8"
    command = ["curl", "--silent", "--no-buffer", "--data-binary", "@-", url]
    command += ["-H", "content-type: application/x-ndjson", *more]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps(row) + "\n" for row in rows))
    process.stdin.close()
    return process


def with_token(gym: Gym) -> tuple[str, str]:
    return "-H", f"x-ng-token: {gym.address.token}"


@pytest.fixture
def gym(processes: Processes) -> Gym:
    return Gym.connect(Path(processes.running.folder))


@needs_curl
def test_curl_is_streamed_scored_rollouts(gym: Gym) -> None:
    with curl(gym, [task("Warm in Rome?"), task("Wet in Bergen?")], *with_token(gym)) as process:
        assert process.stdout is not None
        *rollouts, end = [json.loads(line) for line in process.stdout]
    assert sorted((row["_ng_task_index"], row["_ng_rollout_index"]) for row in rollouts) == [
        (0, 0), (0, 1), (1, 0), (1, 1),
    ]  # fmt: skip
    assert all(row["reward"] == 1.0 for row in rollouts)
    assert end["_ng_end"]["end"] == "complete"


@needs_curl
@pytest.mark.parametrize(
    ("row", "status", "told"),
    [
        ({"responses_create_params": {"input": []}, "agent_ref": {"name": "nobody"}}, 422, "nobody"),
        ({}, 401, "token"),
    ],
)
def test_curl_gets_the_reason_for_a_refusal(gym: Gym, row: dict[str, Any], status: int, told: str) -> None:
    credentials = with_token(gym) if status == 422 else ()
    with curl(gym, [row], "--write-out", "\n%{http_code}", *credentials) as process:
        assert process.stdout is not None
        body, code = process.stdout.read().rsplit("\n", 1)
    assert int(code) == status
    assert told in json.loads(body)["error"]["message"]


@needs_curl
def test_a_trainer_that_goes_away_leaves_nothing_behind(gym: Gym, processes: Processes) -> None:
    stats = processes.engine.stats
    gone = stats.disconnects
    with curl(gym, [task("Wait for Rome.")] * 8, *with_token(gym)) as process:
        wait_until(lambda: stats.in_flight == 8)
        assert processes.open_sessions() == 8
        process.kill()
    wait_until(lambda: stats.in_flight == 0)
    assert stats.disconnects == gone + 8
    wait_until(lambda: processes.open_sessions() == 0)


def test_five_lines_are_enough_for_a_trainer(processes: Processes) -> None:
    gym = Gym.connect(Path(processes.running.folder))
    rewards = {}
    for rollout in gym.rollouts([task("Warm in Rome?")], num_repeats=4):
        rewards[rollout.repeat] = rollout.reward
    assert rewards == dict.fromkeys(range(4), 1.0)


def test_a_new_version_of_the_policy_reaches_every_process(gym: Gym, processes: Processes) -> None:
    assert len(processes.running.urls["policy_model"]) == 2
    for version in (7, 8):
        assert gym.update_policy(version)["version"] == version
        rollouts = list(gym.rollouts([task("Warm in Rome?")], num_repeats=16))
        outputs = [rollout.response["output"] for rollout in rollouts]
        assert {output[-1]["_ng_tokens"]["policy_version"] for output in outputs} == {version}


def test_calls_of_an_old_version_are_given_up_in_every_process(gym: Gym, processes: Processes) -> None:
    stats = processes.engine.stats
    given_up: list[Rollout] = []

    def collect() -> None:
        rows = [task("Wait for Rome.")] * 8
        given_up.extend(gym.rollouts(rows, max_attempts=1, stop_after_identical_failures=0))

    trainer = threading.Thread(target=collect)
    trainer.start()
    wait_until(lambda: stats.in_flight == 8)
    gym.update_policy(9, drop_in_flight=True)
    wait_until(lambda: stats.in_flight == 0)
    trainer.join(30)
    assert [str(rollout.failure and rollout.failure.code) for rollout in given_up] == ["policy_updated"] * 8
