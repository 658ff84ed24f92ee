"""Environments of aviary through the host and by direct calls: same tools, observations, rewards and ends."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sources.foreign.process import HostProcess, HostProgram

pytestmark = pytest.mark.foreign

NATIVE = Path(__file__).with_name("native_aviary.py")
STEP_S = 120.0
Steps = list[str | tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def python(find_python: Callable[[str], Path]) -> Path:
    return find_python("aviary")


def play_natively(
    python: Path, name: str, tasks: list[dict[str, Any]] | None, seeds: list[int], steps: Steps
) -> list[dict[str, Any]]:
    given = json.dumps({"name": name, "tasks": tasks, "seeds": seeds, "steps": steps})
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    printed = subprocess.check_output([python, str(NATIVE), given], text=True, env=environment)
    found: list[dict[str, Any]] = json.loads(printed)
    return found


async def play_attempt(host: HostProcess, task: dict[str, Any], seed: int, steps: Steps) -> dict[str, Any]:
    opened = await host.ask("open", {"task": task, "seed": seed}, deadline_s=STEP_S)
    shown: list[Any] = []
    for number, step in enumerate(steps):
        text, calls = (step, []) if isinstance(step, str) else ("", [step])
        asked = [
            {"call_id": f"call_{number}", "name": name, "arguments": json.dumps(arguments)}
            for name, arguments in calls
        ]
        moved = await host.ask("step", {"seat": 0, "text": text, "calls": asked}, deadline_s=STEP_S)
        outputs = [each["output"] for each in moved["outputs"]]
        shown.append([outputs, moved["observation"], moved["reward"], moved["done"], moved["truncated"]])
        if moved["done"] or moved["truncated"]:
            break
    await host.ask("close", {}, deadline_s=STEP_S)
    return {"first": opened["observation"], "tools": [tool["name"] for tool in task["tools"]], "steps": shown}


async def play_attempts(
    python: Path, name: str, tasks: list[dict[str, Any]] | None, seeds: list[int], steps: Steps
) -> list[dict[str, Any]]:
    program = HostProgram("aviary", name, python, {"tasks": tasks} if tasks else {})
    host = await HostProcess.start(program, program.build_runner())
    try:
        listed = await host.ask("tasks", {"limit": len(tasks) if tasks else 1}, deadline_s=STEP_S)
        return [await play_attempt(host, task, seed, steps) for task in listed["tasks"] for seed in seeds]
    finally:
        await host.close()


PROBLEMS: list[dict[str, Any]] = [
    {"problem_id": f"p{number}", "problem": f"What is {number} + 3?", "answer": float(number + 3)}
    for number in range(5)
]


@pytest.mark.parametrize(
    ("name", "tasks", "steps"),
    [
        ("dummy", None, [("print_story", {"story": "one two three four five"})]),
        (
            "dummy",
            None,
            [("get_random_int", {}), ("cast_float", {"x": "2"}), ("print_story", {"story": "x"})],
        ),
        ("calculator", PROBLEMS, [("calculator", {"expr": "2 + 3"}), ("submit_answer", {"answer": "5"})]),
        ("calculator", PROBLEMS, [("submit_answer", {"answer": "many"})]),
        (
            "calculator",
            PROBLEMS,
            [("calculator", {"expr": "import os"}), ("submit_answer", {"answer": "6.0"})],
        ),
        ("calculator", PROBLEMS, ["The answer is 5.", ("submit_answer", {"answer": "5"})]),
        ("calculator", PROBLEMS, [("no_such_tool", {})]),
    ],
)
def test_attempts_are_equal(
    name: str, tasks: list[dict[str, Any]] | None, steps: Steps, python: Path
) -> None:
    native = play_natively(python, name, tasks, [0, 1, 2], steps)
    assert asyncio.run(play_attempts(python, name, tasks, [0, 1, 2], steps)) == native


def test_arguments_that_do_not_fit_are_told_and_cost_no_step(python: Path) -> None:
    async def play() -> list[Any]:
        program = HostProgram("aviary", "calculator", python, {"tasks": PROBLEMS[:1]})
        host = await HostProcess.start(program, program.build_runner())
        try:
            await host.ask("open", {"task": {"id": "0", "data": {"index": 0}}, "seed": 0}, deadline_s=STEP_S)
            answers = []
            for arguments in ('{"bad": 1}', "{no json", "[1]"):
                call = {"call_id": "c", "name": "calculator", "arguments": arguments}
                fields = {"seat": 0, "text": "", "calls": [call]}
                answers.append(await host.ask("step", fields, deadline_s=STEP_S))
            return answers
        finally:
            await host.close()

    for answer in asyncio.run(play()):
        assert (answer["reward"], answer["done"]) == (None, False)
        assert "error" in json.loads(answer["outputs"][0]["output"])
