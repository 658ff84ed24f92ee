"""`gym eval run FOLDER` as a user types it: task folders, the gym's own agents, a scripted model, real sandboxes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_gym.sandbox.providers.rootless.debian import name_base
from tests.sandbox.rootless_images import READABLE, host_provider, needs_rootless, write_host_layer
from tests.sources.task_folders.task_maker import OFFLINE, make_steps, make_task

pytestmark = needs_rootless


@pytest.fixture(scope="module")
def store() -> Iterator[Path]:
    """A store whose base system has the programs of this machine."""
    with host_provider() as provider:
        write_host_layer(provider, name_base([]))
        yield provider.store.folder


def run(folder: Path, store: Path, target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "runtime").mkdir(mode=0o700, exist_ok=True)
    command = [sys.executable, "-c", "from nemo_gym.cli import main; main()", "eval", "run", str(target)]
    return subprocess.run(
        [
            *command,
            *("-o", "out.jsonl", "++head_server.port=0", "--json", *arguments),
            f"+sandbox_provider={{rootless: {{store: {store}}}}}",
            f"+readable=[{','.join(READABLE)}]",
        ],
        cwd=folder,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder / "runtime")},
        capture_output=True,
        text=True,
        check=False,
    )


def read_rows(folder: Path) -> dict[str, dict[str, Any]]:
    rows = map(json.loads, (folder / "out.jsonl").read_text().splitlines())
    return {row["task_id"]: row for row in rows}


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
