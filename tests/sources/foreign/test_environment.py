"""Foreign environments as an environment, played by `gymnasium_agent` and a scripted policy."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError, GymError
from nemo_gym.rows.forms import TaskRow
from nemo_gym.sources.foreign.environment import (
    ForeignConfig,
    ForeignServer,
    ForeignTask,
    build_program,
    list_readable,
)
from nemo_gym.sources.foreign.kinds import read_name
from nemo_gym.sources.foreign.pool import HostPool
from nemo_gym.testing import run_environment
from nemo_gym.transport.upstream_error import UpstreamError
from tests.sources.foreign.programs import copy_program, list_processes

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


class WaywardServer(ForeignServer):
    """Its hosts run a kind of our own; `options` name the folder and the environment."""

    def _find_pool(self) -> HostPool:
        if self._pool is None:
            options = self.config.options
            self._pool = HostPool(copy_program(Path(options["folder"]), options["name"]), 4)
        return self._pool


def play(
    folder: Path, says: list[str], name: str = "env", row: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    about = {"task": "env/3", "digest": "d" * 64, "seed": 3, "data": {}, **(row or {})}
    task = {"responses_create_params": {"input": "Act."}, "foreign": about}
    (scored,) = run_environment(
        WaywardServer,
        [task],
        turns=says,
        source="textarena:Nim-v0",
        options={"folder": str(folder), "name": name},
        **options,
    )
    return scored


def read_kind(error: UpstreamError) -> str:
    assert error.failure is not None
    return error.failure.kind


def read_shown(row: dict[str, Any]) -> list[str]:
    given = [item["content"] for item in row["responses_create_params"]["input"]]
    return [*given, *(item["content"] for item in row["response"]["output"] if item.get("role") == "user")]


def test_observations_are_messages_and_rewards_are_summed(tmp_path: Path) -> None:
    row = play(tmp_path, ["walk", "finish"])
    assert read_shown(row) == ["Act.", "seed 3", "walk", "finish"]
    assert (row["reward"], row["step_rewards"]) == (2.0, [1.0, 1.0])
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("completed", "terminated")
    assert row["foreign"]["task"] == "env/3"
    assert not list(list_processes(tmp_path))


def test_a_step_without_a_reward_counts_nothing(tmp_path: Path) -> None:
    assert play(tmp_path, ["call", "finish"])["step_rewards"] == [0.0, 1.0]
    assert play(tmp_path, ["walk", "end"])["step_rewards"] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        ("text_reward", "verifier:bad_reward"),
        ("end", "verifier:bad_reward"),
        ("raise", "environment:environment_error"),
        ("die", "environment:host_died"),
    ],
)
def test_a_failure_of_the_environment_is_no_reward(says: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(UpstreamError) as caught:
        play(tmp_path, [says, "finish"])
    assert read_kind(caught.value) == kind
    assert not list(list_processes(tmp_path))


def test_a_changed_environment_is_told(tmp_path: Path) -> None:
    with pytest.raises(UpstreamError, match="has changed since its rows were made") as caught:
        play(tmp_path, ["finish"], row={"digest": "0" * 64})
    assert read_kind(caught.value) == "environment:task_changed"


REFERENCE = {"type": "responses_api_models", "name": "rival"}


def test_other_seats_are_played_by_another_model(tmp_path: Path) -> None:
    row = play(
        tmp_path,
        ["mine", "mine again"],
        "match",
        {"seat": 0},
        judges={"rival": ["theirs", "theirs again"]},
        opponent_model_server=REFERENCE,
    )
    assert read_shown(row) == ["Act.", "seat 1 said theirs", "seat 1 said theirs again"]
    assert (row["reward"], row["info"]["seat"], row["invalid_move"]) == (1.0, 0, 0)


def test_the_policy_can_have_any_seat(tmp_path: Path) -> None:
    row = play(
        tmp_path,
        ["mine", "forfeit"],
        "match",
        {"seat": 1},
        judges={"rival": ["theirs"]},
        opponent_model_server=REFERENCE,
    )
    assert read_shown(row) == ["Act.", "the other seat begins", "seat 0 said theirs"]
    assert (row["reward"], row["invalid_move"]) == (-1.0, 1)


def test_an_opponent_that_forfeits_before_the_first_turn_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(UpstreamError) as caught:
        play(
            tmp_path,
            ["mine"],
            "match",
            {"seat": 0},
            judges={"rival": ["forfeit"]},
            opponent_model_server=REFERENCE,
        )
    assert read_kind(caught.value) == "environment:opponent_forfeited"


def test_seats_without_a_model_are_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(UpstreamError, match="has no opponent_model_server"):
        play(tmp_path, ["mine"], "match", {"seat": 0})


def test_a_name_without_its_packages_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(GymError, match="gym env prefetch textarena"):
        build_program("textarena:Nim-v0", {}, str(tmp_path))
    with pytest.raises(GymError, match="not KIND:NAME"):
        build_program("Nim-v0", {})


def test_a_server_by_its_url_needs_no_packages(tmp_path: Path) -> None:
    program = build_program("ors:http://127.0.0.1:8080/", {"environment": "x"}, str(tmp_path))
    assert (program.address, program.python) == ("http://127.0.0.1:8080", Path(sys.executable))
    assert (program.readable, program.options) == ((), {"environment": "x"})
    with pytest.raises(GymError, match="There is no folder"):
        build_program("ors:nowhere", {}, str(tmp_path))


def test_a_configuration_names_an_environment() -> None:
    block = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py", "name": "foreign", "domain": "games"}
    config = ForeignConfig.model_validate({**block, "source": "textarena:Nim-v0"})
    assert (config.options, config.opponent_model_server) == ({}, None)


@pytest.mark.parametrize(
    ("trainable", "stated", "chosen"),
    [
        ([True, True], None, [0, 1, 0]),
        ([False, True, True], None, [1, 2, 1]),
        ([False, True], 0, [0, 0, 0]),
        ([False, False], None, [0, 1, 0]),
        ([], None, [0, 0, 0]),
    ],
)
def test_the_policy_has_the_seats_that_train(
    trainable: list[bool], stated: int | None, chosen: list[int]
) -> None:
    about = {"seats": [{"name": str(number), "trainable": each} for number, each in enumerate(trainable)]}
    task = ForeignTask(task="one", digest="d", seat=stated)
    rows = [TaskRow({"_ng_rollout_index": repeat}) for repeat in range(3)]
    assert [task.choose_seat(about, row) for row in rows] == chosen


def test_a_host_reads_the_files_beside_a_file_without_those_of_keys(tmp_path: Path) -> None:
    for name in ("tasks.py", "data.jsonl", "env.yaml", ".env"):
        (tmp_path / name).touch()
    named = read_name(f"inspect:{tmp_path}/tasks.py@sums")
    assert named is not None
    assert [path.name for path in list_readable(named)] == ["data.jsonl", "tasks.py"]
    gone = named._replace(name=str(tmp_path / "absent.py"))
    with pytest.raises(ConfigError, match=r"There is no file .*absent\.py"):
        list_readable(gone)
