"""`gym eval run FOLDER` as a user types it: task folders, the gym's own agents, a scripted model, real sandboxes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest
import yaml

from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.sandbox.providers.rootless.debian import name_base
from tests.chaos.faulty_gym import tell
from tests.e2e.gym_command import GYM
from tests.e2e.gym_run import read_lines
from tests.e2e.test_durable_run import read_stats
from tests.samples import IS_WHOLE
from tests.sandbox.rootless_images import READABLE, host_provider, needs_rootless, write_host_layer
from tests.sources.task_folders.task_maker import OFFLINE, make_steps, make_task
from tests.waiting import wait_until

pytestmark = needs_rootless
MANY = 1000 if IS_WHOLE else 24
REWARDS = (0.25, 0.5, 0.75, 1.0)


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


def test_a_dataset_changes_the_sandbox_of_its_task(tmp_path: Path, store: Path) -> None:
    script = "#!/bin/sh\necho ${WANTED:-0.5} > /tmp/answer\n"
    for name in ("one", "two"):
        (make_task(tmp_path / "tasks" / name) / "solution" / "solve.sh").write_text(script)
    table = '[dataset]\nname = "org/set"\n[gym.tasks."one".environment]\nenv = { WANTED = "0.75" }\n'
    (tmp_path / "tasks" / "dataset.toml").write_text(table)
    done = run(tmp_path, store, tmp_path / "tasks", "--agent-type", "oracle")
    assert done.returncode == 0, done.stderr
    assert {name: row["reward"] for name, row in read_rows(tmp_path).items()} == {"one": 0.75, "two": 0.5}


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


def test_a_killed_attempt_goes_on_in_a_sandbox_with_the_files_of_its_last_snapshot(
    tmp_path: Path, store: Path
) -> None:
    make_task(tmp_path / "tasks" / "one")
    # Prints other text each time, so that an attempt that executed it again would not go on.
    note = 'echo "line $(cat /tmp/log | wc -l) $(date +%s%N)" >> /tmp/log; cat /tmp/log; wc -l < /tmp/log > /tmp/answer'
    call = {"tool_calls": [{"name": "bash", "arguments": {"command": note}}]}
    script = tmp_path / "script.json"
    hello = {"turns": [{"text": "hello"}]}
    script.write_text(
        json.dumps([{"match": "Write 1", "turns": [call, call, call, {"text": "Done."}]}, hello])
    )
    lost = {"do": "hang", "times": 1, "match": "line 1 "}
    with EngineProcess(EngineOptions(policy="script", script=script, faults=[lost])) as engine:
        line = (tmp_path, store, tmp_path / "tasks", "--url", engine.base_url, "--model", "mock")
        durable = (
            "--durability",
            "process",
            "++task_folders.resources_servers.task_folders.snapshot_after_s=0",
        )
        killed = start(*line, *durable)
        try:
            wait_until(lambda: read_stats(engine)["faults"].get("hang") == 1 or killed.poll() is not None)
        finally:
            killed.kill()
            killed.communicate()
        done = run(*line, *durable, "--resume")
    assert done.returncode == 0, (done.stdout, done.stderr)
    (row,) = read_lines(tmp_path / "out.jsonl")
    about = row["_ng_replay"]
    assert (about["calls_replayed"], about["tools_recorded"], about["from_snapshot"]) == (2, 2, True)
    assert row["reward"] == 3.0
    assert list((store / "sandboxes").iterdir()) == []


def test_many_folders_are_counted_exactly_in_flat_memory_and_a_killed_run_goes_on(
    tmp_path: Path, store: Path
) -> None:
    scenes = []
    for reward in REWARDS:
        command = {"command": f"echo {reward} > /tmp/answer"}
        turns = [{"tool_calls": [{"name": "bash", "arguments": command}]}, {"text": "Done."}]
        scenes.append({"match": f"Write {reward} to", "turns": turns})
    (tmp_path / "script.yaml").write_text(yaml.safe_dump(scenes))
    expected = {f"task{number:04}": REWARDS[number % len(REWARDS)] for number in range(MANY)}
    for name, reward in expected.items():
        folder = make_task(tmp_path / "tasks" / name)
        (folder / "instruction.md").write_text(f"Write {reward} to /tmp/answer.\n")
    server = "++policy_model.responses_api_models.scripted_model"
    options = [
        *("--model-type", "scripted_model", "++num_samples_in_parallel=4"),
        f"{server}.engine={{policy: script, script: {tmp_path}/script.yaml}}",
    ]
    before = play_and_weigh(tmp_path, store, *options, until=MANY // 2)
    assert MANY // 2 <= len(before) < MANY
    after = play_and_weigh(tmp_path, store, *options, "--resume", until=None)
    assert after[: len(before)] == before
    assert len(after) == MANY
    assert {row["task_id"]: row["reward"] for row in after} == expected
    assert read_lines(tmp_path / "out_failures.jsonl") == []
    assert list((store / "sandboxes").iterdir()) == []


def play_and_weigh(folder: Path, store: Path, *arguments: str, until: int | None) -> list[dict[str, Any]]:
    """Run all folders, in flat memory, or kill the run when its output has `until` rows; return the rows."""
    process = start(folder, store, folder / "tasks", *arguments)
    output, weights = folder / "out.jsonl", list[int]()
    began = count_lines(output)
    try:
        while process.poll() is None:
            rows = count_lines(output)
            if until is not None and rows >= until:
                break
            if began < rows < MANY:  # the servers end when they are done
                weights.append(weigh(process.pid, store))
            time.sleep(0.1)
    finally:
        if until is not None:
            process.kill()
        _, errors = process.communicate()
    assert process.returncode == (0 if until is None else -signal.SIGKILL), errors
    # Medians: a process that is about to start a program counts for a moment as much as its parent.
    part = len(weights) // 4 + 1
    early, late = int(median(weights[:part])), int(median(weights[-part:]))
    tell("task folders", rows=count_lines(output), early_mib=early >> 20, late_mib=late >> 20)
    assert late - early < 64 << 20
    wait_until(lambda: list_sandboxes(store) == [])
    return read_lines(output)


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def weigh(pid: int, store: Path) -> int:
    """Return the resident bytes of a run and its servers, without their sandboxes."""
    found = {each.pid: each.info for each in psutil.process_iter(["ppid", "cmdline", "memory_info"])}
    total, waiting = 0, [pid]
    while waiting:
        parent = waiting.pop()
        info = found.get(parent)
        if info is not None and not is_of(store, info["cmdline"] or []):
            total += info["memory_info"].rss
            waiting += [child for child, each in found.items() if each["ppid"] == parent]
    return total


def is_of(store: Path, command: list[str]) -> bool:
    """Return whether a command starts a sandbox of a store."""
    return "bwrap" in command and any(str(store) in word for word in command)


def list_sandboxes(store: Path) -> list[int]:
    found = psutil.process_iter(["cmdline"])
    return [each.pid for each in found if is_of(store, each.info["cmdline"] or [])]


def find_waiting(gate: Path) -> list[int]:
    """Return the processes that wait at the gate, in their sandboxes."""
    found = psutil.process_iter(["cmdline"])
    return [each.pid for each in found if (each.info["cmdline"] or [])[-1:] == [str(gate)]]
