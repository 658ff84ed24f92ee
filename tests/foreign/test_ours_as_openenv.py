"""Environments of ours as servers of OpenEnv: its validation, and the rewards of our own agent by its client."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.foreign.ours import EXAMPLES, LAZY, read_gold, run_agent, running_engine, running_gym

pytestmark = pytest.mark.foreign

CLIENT = Path(__file__).with_name("native_openenv_client.py")
ANNOUNCED = r"OpenEnv: \w+ at (http://127\.0\.0\.1:\d+)"


@pytest.fixture(scope="module")
def python(find_python: Callable[[str], Path]) -> Path:
    return find_python("openenv")


def build_game(index: int, row: dict[str, Any]) -> dict[str, Any]:
    """Return what our agent did at a row as actions."""
    actions: list[dict[str, Any]] = []
    for item in row["response"]["output"]:
        if item["type"] == "function_call":
            arguments = json.loads(item["arguments"])
            actions.append({"type": "call_tool", "tool_name": item["name"], "arguments": arguments})
        elif item["type"] == "message":
            actions.append({"message": "".join(part["text"] for part in item["content"])})
    return {"reset": {"split": "example", "index": index}, "actions": actions}


def play(python: Path, url: str, games: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [python, str(CLIENT), url, json.dumps(games)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("policy", ["gold", "lazy"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_rewards_are_those_of_our_own_agent(name: str, policy: str, python: Path, tmp_path: Path) -> None:
    with running_engine(tmp_path, read_gold(name) if policy == "gold" else LAZY) as engine:
        rows = run_agent(tmp_path, name, engine)
    games = [build_game(index, row) for index, row in enumerate(rows)]
    with running_gym(tmp_path, name, "--openenv", "0", announced=ANNOUNCED) as found:
        played = play(python, found[1], games)
    for row, game in zip(rows, played, strict=True):
        first, *moves, last = game["moves"]
        outputs = [item["output"] for item in row["response"]["output"] if "output" in item]
        assert [move[0]["result"] for move in moves] == outputs
        assert {tuple(move[1:3]) for move in (first, *moves)} == {(None, False)}
        assert last[1:3] == [row["reward"], True]
        assert game["state"]["step_count"] == len(moves) + 1
    rewards = {row["reward"] for row in rows}
    assert rewards == {1.0} if policy == "gold" else max(rewards) < 1.0


def test_the_validation_of_openenv_passes(python: Path, tmp_path: Path) -> None:
    with running_gym(tmp_path, EXAMPLES[0], "--openenv", "0", announced=ANNOUNCED) as found:
        done = subprocess.run(
            [python.parent / "openenv", "validate", "--url", found[1], "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
    report = json.loads(done.stdout)
    assert (done.returncode, report["passed"], report["mode"]) == (0, True, "simulation")
    assert [criterion["passed"] for criterion in report["criteria"]] == [True] * 6
    assert report["standard_profile"] == "openenv-http/1.x"


def test_mistakes_of_a_client_are_told(python: Path, tmp_path: Path) -> None:
    game = {
        "reset": {"seed": 1},
        "actions": [
            {"type": "list_tools"},
            {"bad": 1},
            {"type": "call_tool", "tool_name": "verify", "arguments": {}},
            {"message": "warm"},
            {"message": "again"},
        ],
    }
    with running_gym(tmp_path, EXAMPLES[0], "--openenv", "0", announced=ANNOUNCED) as found:
        (played,) = play(python, found[1], [game])
    _, listed, bad, refused, ended, again = played["moves"]
    assert [tool["name"] for tool in listed[0]["tools"]] == ["get_weather"]
    assert "VALIDATION_ERROR" in bad
    assert "there is no tool named 'verify'" in refused[0]["result"]
    assert ended[1:3] == [0.0, True]
    assert "the episode is over" in again
