"""`gym eval run FOLDER` as a user types it: task folders, the gym's own agents, a scripted model, real sandboxes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from nemo_gym.sandbox.providers.rootless.debian import name_base
from tests.e2e.gym_command import GYM
from tests.e2e.gym_run import read_lines
from tests.sandbox.rootless_images import READABLE, host_provider, needs_rootless, write_host_layer
from tests.sources.task_folders.task_maker import OFFLINE, make_steps, make_task
from tests.waiting import wait_until

pytestmark = needs_rootless


@pytest.fixture(scope="module")
def store() -> Iterator[Path]:
    """A store whose base system has the programs of this machine."""
    with host_provider() as provider:
        write_host_layer(provider, name_base([]))
        yield provider.store.folder


def start(folder: Path, store: Path, target: Path, *arguments: str) -> subprocess.Popen[str]:
    (folder / "runtime").mkdir(mode=0o700, exist_ok=True)
    return subprocess.Popen(
        [
            *(*GYM, "eval", "run", str(target)),
            *("-o", "out.jsonl", "++head_server.port=0", "--json", *arguments),
            f"+sandbox_provider={{rootless: {{store: {store}}}}}",
            f"+readable=[{','.join([*READABLE, str(store / 'gate')])}]",
        ],
        cwd=folder,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder / "runtime")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, store: Path, target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    process = start(folder, store, target, *arguments)
    printed, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, printed, errors)


def read_rows(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["task_id"]: row for row in read_lines(folder / "out.jsonl")}


def test_the_solution_and_nothing_get_what_the_verifiers_say(tmp_path: Path, store: Path) -> None:
    make_task(
        tmp_path / "tasks" / "one",
        f'[task]\nname = "org/one"\nversion = "2"\n[metadata]\nlicense = "MIT"\n{OFFLINE}',
    )
    make_steps(
        tmp_path / "tasks" / "two",
        "",
        {name: {"solution/solve.sh": "#!/bin/sh\necho 1 > answer"} for name in "ab"},
    )
    windows = make_task(tmp_path / "tasks" / "windows", f'{OFFLINE}os = "windows"\n')
    (windows / "tests" / "test.bat").touch()
    done = run(tmp_path, store, tmp_path / "tasks", "--agent-type", "oracle")
    assert done.returncode == 0, done.stderr
    assert "1 of 3 task folders are refused (1 windows" in done.stderr
    rows = read_rows(tmp_path)
    assert {name: row["reward"] for name, row in rows.items()} == {"one": 1.0, "two": 1.0}
    assert rows["one"]["task_folder"] == {
        "folder": "one",
        "name": "org/one",
        "dataset": "tasks",
        "version": "2",
        "license": "MIT",
        "base": "debian:bookworm",
        "deviations": [],
        "steps": 0,
    }
    assert len(rows["one"]["folder_digest"]) == 64
    assert [step["rewards"] for step in rows["two"]["steps"]] == [{"reward": 1.0}, {"reward": 1.0}]
    done = run(tmp_path, store, tmp_path / "tasks", "--agent-type", "oracle/nop", "--overwrite")
    assert done.returncode == 0, done.stderr
    assert {name: row["reward"] for name, row in read_rows(tmp_path).items()} == {"one": 0.0, "two": 0.0}


def test_a_model_works_with_the_shell_and_each_step_is_a_conversation_of_its_own(
    tmp_path: Path, store: Path
) -> None:
    make_task(tmp_path / "tasks" / "one")
    make_steps(tmp_path / "tasks" / "two", "", {"first": {}, "second": {}})
    calls = {
        "Write 1": "echo 1 > /tmp/answer",
        "Do first": "echo 1 > answer",
        "Do second": "echo 0.5 > answer",
    }
    scenes = [
        {
            "match": match,
            "turns": [
                {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]},
                {"text": "Done."},
            ],
        }
        for match, command in calls.items()
    ]
    (tmp_path / "script.yaml").write_text(yaml.safe_dump(scenes))
    options = ["--model-type", "scripted_model"]
    server = "++policy_model.responses_api_models.scripted_model"
    engine = f"{server}.engine={{policy: script, script: {tmp_path}/script.yaml}}"
    done = run(tmp_path, store, tmp_path / "tasks", *options, engine)
    assert done.returncode == 0, done.stderr
    rows = read_rows(tmp_path)
    assert {name: row["reward"] for name, row in rows.items()} == {"one": 1.0, "two": 0.75}
    kinds = [item["type"] for item in rows["two"]["response"]["output"]]
    turn = ["function_call", "function_call_output", "message"]
    assert kinds == [*turn, "message", *turn]


def test_a_folder_in_which_nothing_can_run_is_refused_before_anything_starts(
    tmp_path: Path, store: Path
) -> None:
    make_task(tmp_path / "tasks" / "one", "")
    done = run(tmp_path, store, tmp_path / "tasks", "--agent-type", "oracle")
    assert done.returncode == 2
    assert "network_public" in done.stdout
    assert "+network=none" in done.stdout
    done = run(
        tmp_path, store, tmp_path / "tasks", "--agent-type", "oracle", "+network=none", "++dry_run=true"
    )
    assert "refused" not in done.stderr
    row = json.loads((tmp_path / "out_tasks.jsonl").read_text())
    assert row["task_folder"]["deviations"] == ["network_mode = 'public' runs without a network"]


def test_a_run_that_is_killed_within_a_step_goes_on_with_the_same_folders(
    tmp_path: Path, store: Path
) -> None:
    gate = store / "gate"
    gate.mkdir(mode=0o755)
    loop = 'until [ -e "$0/open" ]; do sleep 0.1; done; echo 1 > /tmp/answer'
    waits = f"#!/bin/sh\nexec sh -c '{loop}' {gate}\n"
    for name in ("a", "b"):
        make_task(tmp_path / "tasks" / name)
    plays = {"first": "#!/bin/sh\necho 0.5 > /tmp/answer\n", "second": waits}
    steps = {name: {"solution/solve.sh": text} for name, text in plays.items()}
    make_steps(tmp_path / "tasks" / "c", "", steps)
    line = (tmp_path, store, tmp_path / "tasks", "--agent-type", "oracle", "++num_samples_in_parallel=1")
    killed = start(*line)
    try:
        wait_until(lambda: find_waiting(gate) or killed.poll() is not None)
    finally:
        killed.kill()
        killed.communicate()
    before = read_lines(tmp_path / "out.jsonl")
    assert [row["task_id"] for row in before] == ["a", "b"]
    wait_until(lambda: find_waiting(gate) == [])
    (gate / "open").touch()
    tests = tmp_path / "tasks" / "a" / "tests" / "test.sh"
    text = tests.read_text()
    tests.write_text(text + "# changed\n")
    done = run(*line, "--resume")
    assert done.returncode == 2
    assert "The tasks have changed" in done.stdout
    tests.write_text(text)
    done = run(*line, "--resume")
    assert done.returncode == 0, done.stderr
    after = read_lines(tmp_path / "out.jsonl")
    assert after[:2] == before
    assert [(row["task_id"], row["reward"]) for row in after[2:]] == [("c", 0.75)]
    assert list((store / "sandboxes").iterdir()) == []


def find_waiting(gate: Path) -> list[int]:
    """Return the processes that wait at the gate, in their sandboxes."""
    found = psutil.process_iter(["cmdline"])
    return [each.pid for each in found if (each.info["cmdline"] or [])[-1:] == [str(gate)]]
