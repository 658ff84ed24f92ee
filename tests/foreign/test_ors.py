"""Environments of Open Reward Standard, by URL and by folder, and through their own client: same texts and rewards."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError, ForeignError, VerifierError
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.sources.foreign.environment import build_program
from nemo_gym.sources.foreign.pool import HostPool
from nemo_gym.sources.foreign.process import HostProcess, HostProgram
from nemo_gym.sources.foreign.rows import read_listing
from tests.e2e.gym_run import read_lines
from tests.foreign.test_openenv import PACKAGES, copy_folder
from tests.foreign.test_runs import build_line, start

pytestmark = pytest.mark.foreign

NATIVE = Path(__file__).with_name("native_ors.py")
STEP_S = 120.0
Step = str | tuple[str, dict[str, Any]]
Game = dict[str, Any]


@pytest.fixture(scope="module")
def python(find_python: Callable[[str], Path]) -> Path:
    return find_python("ors")


@pytest.fixture(scope="module")
def folder(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_folder(PACKAGES / "sums_env", tmp_path_factory.mktemp("ors"))


@pytest.fixture(scope="module")
def url(python: Path, folder: Path) -> Iterator[str]:
    """Return the URL of a server outside of every sandbox."""
    command = [str(python), str(NATIVE), str(folder), "serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as serving:
        assert serving.stdout is not None
        yield serving.stdout.readline().strip()
        serving.kill()


@pytest.fixture(scope="module", params=["url", "folder"])
def build(request: pytest.FixtureRequest, python: Path) -> Callable[..., HostProgram]:
    """Return what makes a program of the server, in both forms."""
    place = request.getfixturevalue(request.param)

    def build(**options: Any) -> HostProgram:
        if request.param == "url":
            return build_program(f"ors:{place}", options)
        return HostProgram("ors", str(place), python, options, readable=(place,))

    return build


def play_natively(python: Path, folder: Path, games: list[Game]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [python, str(NATIVE), str(folder), "play", json.dumps(games)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


async def take(host: HostProcess, step: Step) -> dict[str, Any]:
    text, calls = (step, []) if isinstance(step, str) else ("", [step])
    asked = [
        {"call_id": f"c{number}", "name": name, "arguments": json.dumps(arguments)}
        for number, (name, arguments) in enumerate(calls)
    ]
    return await host.ask("step", {"seat": 0, "text": text, "calls": asked}, deadline_s=STEP_S)


async def play_game(host: HostProcess, game: Game) -> dict[str, Any]:
    place = {"split": game["split"], "index": game["index"]}
    found = await host.ask(
        "tasks", {"split": game["split"], "cursor": game["index"], "limit": 1}, deadline_s=9
    )
    (task,) = found["tasks"]
    assert place.items() <= task["data"].items()
    opened = await host.ask("open", {"task": task, "seed": 0}, deadline_s=STEP_S)
    opening = opened["info"]["opening"]
    steps = []
    for step in game["steps"]:
        try:
            steps.append(await take(host, step))
        except (ForeignError, VerifierError) as error:
            steps.append({"error": error.failure.message})
    await host.ask("close", {}, deadline_s=STEP_S)
    return {**opening, "steps": steps}


async def play_games(program: HostProgram, games: list[Game]) -> list[dict[str, Any]]:
    pool = HostPool(program, 1)
    try:
        host = await pool.acquire()
        return [await play_game(host, game) for game in games]
    finally:
        await pool.close()


def read_text(move: dict[str, Any]) -> str | None:
    outputs = [output["output"] for output in move.get("outputs", ())]
    return outputs[0] if outputs else move.get("observation")


def check_step(native: list[Any], ours: dict[str, Any]) -> None:
    if native[0] == "ToolFailed":
        assert native[2].endswith(ours["error"])
    elif native[0] == "ToolCallError":
        told = json.loads(read_text(ours) or "")
        assert [told["reason"], told["error"]] == native[1:]
    elif "outputs" in ours:
        assert [read_text(ours), ours["done"]] == [native[0], native[2]]


def sum_rewards(native: list[list[Any]]) -> float | None:
    """Return the sum of the rewards that the client saw; None if it saw none."""
    rewards = [step[1] for step in native if not isinstance(step[1], str) and step[1] is not None]
    return sum(rewards) if rewards else None


def sum_ours(ours: list[dict[str, Any]]) -> float | None:
    rewards = [step["reward"] for step in ours if step.get("reward") is not None]
    return sum(rewards) if rewards else None


def compare(python: Path, folder: Path, program: HostProgram, games: list[Game]) -> list[dict[str, Any]]:
    found = asyncio.run(play_games(program, games))
    for native, ours in zip(play_natively(python, folder, games), found, strict=True):
        assert [[tool["name"], tool["description"]] for tool in ours["tools"]] == [
            each[:2] for each in native["tools"]
        ]
        assert len(ours["steps"]) == len(native["steps"])
        for theirs, move in zip(native["steps"], ours["steps"], strict=True):
            check_step(theirs, move)
        assert sum_ours(ours["steps"]) == sum_rewards(native["steps"])
    return found


def add(number: Any) -> Step:
    return ("add", {"number": number})


PLAYS: list[list[Step]] = [
    [add(5), ("submit", {})],
    [add(3), add(2), add(1), ("submit", {})],
    [add("many"), ("no_such_tool", {}), add(2), ("tell", {}), ("leave", {})],
    [("tell", {}), ("leave", {})],
    [("submit", {}), add(1), ("submit", {})],
    [("hint", {}), add(4), add(7), ("submit", {"more": 1})],
    [add(1), add(13)],
]


def test_games_with_tools_are_equal(build: Callable[..., HostProgram], python: Path, folder: Path) -> None:
    games = [
        {"environment": "sums", "split": split, "index": index, "steps": steps}
        for split, indices in (("train", (0, 1, 119)), ("test", (2,)))
        for index in indices
        for steps in PLAYS
    ]
    found = compare(python, folder, build(), games)
    assert {sum_ours(game["steps"]) for game in found} >= {None, 0.0, 0.25, 0.75, 1.25}
    ends = [step.get("done") for game in found for step in game["steps"]]
    assert {True, False, None} == set(ends)
    first = found[0]["input"]
    assert first == [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Make 5."},
                {"type": "input_text", "text": "Add numbers, then submit."},
            ],
        }
    ]


def test_a_plain_answer_ends_an_attempt_with_a_terminal_tool(
    build: Callable[..., HostProgram], python: Path, folder: Path
) -> None:
    games = [
        {"environment": "riddle", "split": "train", "index": index, "steps": steps}
        for index in (0, 1)
        for steps in (["tea"], [("look", {"answer": "up"}), "It is rain."])
    ]
    found = compare(python, folder, build(environment="riddle"), games)
    assert [game["steps"][-1]["done"] for game in found] == [True] * 4
    assert [sum_ours(game["steps"]) for game in found] == [1.0, 0.0, 0.0, 1.0]
    items = found[0]["input"]
    assert [item.get("role") or item["type"] for item in items] == [
        *("system", "user", "reasoning", "assistant", "function_call", "function_call_output", "user")
    ]
    assert json.loads(items[4]["arguments"]) == {"at": "sky"}
    assert items[5] == {"type": "function_call_output", "call_id": "c1", "output": "grey\nwet"}


def test_calls_side_by_side_all_get_an_output(build: Callable[..., HostProgram]) -> None:
    async def play() -> dict[str, Any]:
        pool = HostPool(build(), 1)
        try:
            host = await pool.acquire()
            task = {"id": "x", "data": {"split": "test", "index": 0}}
            await host.ask("open", {"task": task, "seed": 0}, deadline_s=STEP_S)
            calls = [
                {"call_id": f"c{number}", "name": name, "arguments": arguments}
                for number, (name, arguments) in enumerate(
                    [
                        ("add", '{"number": 3}'),
                        ("add", "no json"),
                        ("add", "[1]"),
                        ("leave", ""),
                        ("submit", "{}"),
                    ]
                )
            ]
            return await host.ask("step", {"seat": 0, "text": "", "calls": calls}, deadline_s=STEP_S)
        finally:
            await pool.close()

    moved = asyncio.run(play())
    assert (moved["reward"], moved["done"]) == (0.25, True)
    outputs = [each["output"] for each in moved["outputs"]]
    assert [outputs[0], outputs[3]] == ["3", "left"]
    assert "not JSON" in outputs[1]
    assert "not a JSON object" in outputs[2]
    assert json.loads(outputs[4])["reason"] == "episode_finished"


def test_tasks_are_those_of_a_split(build: Callable[..., HostProgram]) -> None:
    listing = read_listing(build(), 1000, "train", 0)
    assert [task["data"]["index"] for task in listing.tasks] == list(range(120))
    assert listing.tasks[7] == {
        "id": "sums/train/7",
        "split": "train",
        "data": {"split": "train", "index": 7, "spec": {"goal": 12}},
    }
    assert listing.about["splits"] == {"train": 120, "test": 3}
    assert len(read_listing(build(), 1000, "test", 0).tasks) == 3
    assert len(read_listing(build(environment="riddle"), 1, None, 0).tasks) == 1


@pytest.mark.parametrize(
    ("options", "split", "told"),
    [
        ({}, None, r"name one of its splits, train \(120 tasks\), test \(3 tasks\): \+split=NAME"),
        ({}, "dev", "it has no split 'dev', but train"),
        ({"environment": "maze"}, "test", "has no environment 'maze', but sums, riddle"),
        ({"level": 1}, "test", "ors has no options level"),
    ],
)
def test_a_wrong_choice_is_told(
    options: dict[str, Any], split: str | None, told: str, build: Callable[..., HostProgram]
) -> None:
    with pytest.raises(ConfigError, match=told):
        read_listing(build(**options), 5, split, 0)


SCRIPT = """\
- match: Add numbers
  turns:
  - tool_calls: [{name: add, arguments: {number: 5}}]
  - tool_calls: [{name: submit, arguments: {}}]
- turns: [text: hello]
"""


def test_a_command_runs_a_server_by_its_url(tmp_path: Path, url: str) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    with EngineProcess(EngineOptions(policy="script", script=script)) as engine:
        line = build_line(
            tmp_path, engine.base_url, [f"ors:{url}"], "+split=train", "--limit", "3", "-n", "2"
        )
        process = start(tmp_path, line)
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    rows = read_lines(tmp_path / "out.jsonl")
    rewards = {row["foreign"]["data"]["index"]: row["reward"] for row in rows}
    assert (len(rows), rewards) == (6, {0: 1.25, 1: 0.25, 2: 0.25})
    for row in rows:
        assert row["foreign"]["source"] == url
        assert row["_ng_end_reason"] == "terminated"
        assert [tool["name"] for tool in row["responses_create_params"]["tools"]][:2] == ["add", "leave"]
