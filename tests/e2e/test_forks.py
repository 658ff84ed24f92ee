"""`gym fork` and `gym rewind` as a user types them, against a gym that stays, with the engine stub as a process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nemo_gym.client import Gym
from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rows.keys import FORK_KEY, REPLAY_KEY
from tests.e2e.gym_command import GYM, run_gym
from tests.e2e.gym_run import Row, read_lines
from tests.e2e.test_gym_command import process
from tests.waiting import wait_until

ENVIRONMENT = "example_session_state_mgmt"
EXAMPLES = f"resources_servers/{ENVIRONMENT}/data/example.jsonl"
KEEP = ("-o", "results/kept.jsonl", "--durability", "process", "+keep_attempts=all", "--limit", "2")


def run(folder: Path, environment: dict[str, str], *line: str) -> str:
    done = run_gym(folder, environment, *line)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("is_relative", [True, False])
def test_forks_and_a_rewind_share_the_calls_of_their_parent(
    tmp_path: Path, is_relative: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    (tmp_path / "runtime").mkdir(mode=0o700)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    kept = "results/kept.jsonl" if is_relative else str(tmp_path / "results" / "kept.jsonl")
    with EngineProcess(EngineOptions(model="m")) as engine:
        policy = ("--url", engine.base_url, "--model", "m", "+head_server.port=0")
        with process([*GYM, "env", "start", ENVIRONMENT, *policy, "--json"], tmp_path, environment):
            wait_until(lambda: (tmp_path / ".nemo_gym_global_config.yaml").exists())
            agent = f"{ENVIRONMENT}_simple_agent"
            run(tmp_path, environment, "eval", "run", "--no-serve", "-i", EXAMPLES, "-a", agent, *KEEP)
            told = run(tmp_path, environment, "fork", kept, "--turn", "1", "-n", "4", "--task", "0")
            assert "went on" not in told
            ours = Gym.connect(tmp_path).fork(
                tmp_path / "results/kept.jsonl", turn=1, n=2, output=tmp_path / "results/ours.jsonl"
            )
            assert [(each.task, each.repeat, each.failure) for each in ours] == [
                (task, repeat, None) for task in range(2) for repeat in range(2)
            ]
            assert {each.row[FORK_KEY]["turn"] for each in ours} == {1}
            with pytest.raises(ConfigError, match="no turn 99"):
                Gym.connect(tmp_path).fork(tmp_path / "results/kept.jsonl", turn=99)
            run(tmp_path, environment, "rewind", kept, "--turn", "-1", "-o", "results/rewound.jsonl")
    forks = read_lines(tmp_path / "results" / "kept_forks.jsonl")
    assert sorted(map(describe, forks)) == [("fork", [0, 0], 1, number) for number in range(4)]
    assert {row[REPLAY_KEY]["calls_replayed"] for row in forks} == {1}
    rewound = read_lines(tmp_path / "results" / "rewound.jsonl")
    assert {describe(row)[0] for row in rewound} == {"rewind"}
    assert all(row[REPLAY_KEY]["calls_live"] == 1 for row in rewound), json.dumps(rewound)[:2000]


def describe(row: Row) -> tuple[str, list[int], int, int]:
    about = row[FORK_KEY]
    return row[REPLAY_KEY]["mode"], about["parent"], about["turn"], about["number"]
