"""Environments of OpenEnv through the host, and through their own server and client: same observations and rewards."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sources.foreign.process import HostProcess, HostProgram
from tests.export.rows import exported, fork_rows

pytestmark = pytest.mark.foreign

NATIVE = Path(__file__).with_name("native_openenv.py")
PACKAGES = Path(__file__).with_name("packages")
EXAMPLES = Path(__file__).resolve().parents[3] / "shared/data/foreign_examples/openenv/envs"
STEP_S = 120.0
Game = dict[str, Any]


@pytest.fixture(scope="module")
def python(find_python: Callable[[str], Path]) -> Path:
    return find_python("openenv")


def copy_folder(source: Path, folder: Path) -> Path:
    """Return a copy that the user of a sandbox can read."""
    if not source.is_dir():
        pytest.skip(f"{source} is not here")
    copy = folder / "kept" / source.name
    shutil.copytree(source, copy)
    for path in (copy.parent, copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def play_natively(python: Path, folder: Path, games: list[Game]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [python, str(NATIVE), str(folder), json.dumps(games)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def build_call(action: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the policy's call that means an action."""
    is_mcp = action.get("type") == "call_tool"
    name = action["tool_name"] if is_mcp else "act"
    arguments = action["arguments"] if is_mcp else action
    return {"call_id": f"call_{number}", "name": name, "arguments": json.dumps(arguments)}


async def play_games(python: Path, folder: Path, games: list[Game]) -> list[dict[str, Any]]:
    program = HostProgram("openenv", str(folder), python, readable=(folder,))
    host = await HostProcess.start(program, program.build_runner())
    found = []
    try:
        for game in games:
            opened = await host.ask(
                "open", {"task": {"id": "x", "data": {}}, "seed": game["seed"]}, deadline_s=STEP_S
            )
            steps: list[dict[str, Any]] = []
            for number, action in enumerate(game["actions"]):
                fields = {"seat": 0, "text": "", "calls": [build_call(action, number)]}
                moved = await host.ask("step", fields, deadline_s=STEP_S)
                (output,) = moved["outputs"]
                read = json.loads(output["output"])
                if set(read) == {"error"} and "code: " in read["error"]:
                    steps.append(read)
                    continue
                steps.append({"observation": read, "reward": moved["reward"], "done": moved["done"]})
                if moved["done"]:
                    break
            await host.ask("close", {}, deadline_s=STEP_S)
            found.append({"first": json.loads(opened["observation"]), "steps": steps})
    finally:
        await host.close()
    return found


def select(result: dict[str, Any]) -> dict[str, Any]:
    """Leave out the keys of observations that the gym has elsewhere."""

    def read(observation: Any) -> Any:
        return {key: value for key, value in observation.items() if key not in ("metadata", "done", "reward")}

    steps = [
        {**step, "observation": read(step["observation"])} if "observation" in step else step
        for step in result["steps"]
    ]
    return {"first": read(result["first"]), "steps": steps}


def compare(python: Path, folder: Path, games: list[Game]) -> list[dict[str, Any]]:
    native = [select(result) for result in play_natively(python, folder, games)]
    ours = asyncio.run(play_games(python, folder, games))
    assert ours == native
    return ours


def test_twenty_games_of_guessing_are_equal(python: Path, tmp_path: Path) -> None:
    games: list[Game] = [
        {"seed": seed, "actions": [{"number": 1 + (seed * 7 + turn * 5) % 20} for turn in range(6)]}
        for seed in range(20)
    ]
    games[3]["actions"].insert(1, {"number": "many"})
    games[4]["actions"].insert(1, {"number": 13})
    found = compare(python, copy_folder(PACKAGES / "guess_env", tmp_path), games)
    rewards = {sum(step["reward"] for step in game["steps"] if "reward" in step) for game in found}
    assert len(rewards) > 2
    errors = [step for game in found for step in game["steps"] if "error" in step]
    assert any("VALIDATION_ERROR" in error["error"] for error in errors)
    assert any("EXECUTION_ERROR" in error["error"] for error in errors)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "call_tool", "tool_name": tool, "arguments": arguments}


def test_tools_of_an_mcp_environment_are_those_of_the_policy(python: Path, tmp_path: Path) -> None:
    actions = [
        call("read", name="a"),
        call("write", name="a", text="tea"),
        call("read", name="a"),
        call("shout"),
    ]
    folder = copy_folder(PACKAGES / "notes_env", tmp_path)
    compare(python, folder, [{"seed": seed, "actions": actions} for seed in range(20)])


@pytest.mark.parametrize("name", ["connect4_env", "maze_env"])
def test_published_environments_are_equal(name: str, python: Path, tmp_path: Path) -> None:
    field = {"connect4_env": "column", "maze_env": "action"}[name]
    games: list[Game] = [
        {
            "seed": seed,
            "actions": [{field: (seed * 3 + turn * 5) % (8 if turn > 8 else 7)} for turn in range(20)],
        }
        for seed in range(20)
    ]
    if name == "maze_env":
        for game in games:
            game["actions"] = [{field: action[field] % 4} for action in game["actions"]]
    compare(python, copy_folder(EXAMPLES / name, tmp_path), games)


def test_the_published_echo_is_equal(python: Path, tmp_path: Path) -> None:
    actions = [call("echo_message", message="hi"), call("echo_with_length", message="tea"), call("nothing")]
    compare(python, copy_folder(EXAMPLES / "echo_env", tmp_path), [{"seed": 1, "actions": actions}])


def test_the_template_of_openenv_is_equal(python: Path, tmp_path: Path) -> None:
    made = subprocess.run(
        [python.parent / "openenv", "init", "fresh_env", "--output-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr + made.stdout
    actions = [{"message": "hello"}, {"message": "tea"}]
    folder = copy_folder(tmp_path / "fresh_env", tmp_path / "copy")
    compare(python, folder, [{"seed": seed, "actions": actions} for seed in range(3)])


READ = """
import json, sys
from openenv.core.harness.training import TrainingTrace
for line in sys.stdin:
    print(len(TrainingTrace.model_validate_json(line).turns))
"""


def test_openenv_reads_the_traces_that_are_exported(python: Path, tmp_path: Path) -> None:
    rows = fork_rows()
    written, _ = exported(tmp_path, "openenv", rows)
    lines = (tmp_path / "out.jsonl").read_bytes()
    done = subprocess.run([python, "-c", READ], input=lines, capture_output=True, check=True)
    assert list(map(int, done.stdout.split())) == [len(trace["turns"]) for trace in written]
