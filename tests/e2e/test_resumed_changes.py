"""Runs of an environment of one's own that are resumed after a change, and gyms of other folders: real commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from tests.e2e.gym_command import GYM, run_gym
from tests.waiting import wait_until

AGENT = "lockbox_simple_agent"
MARK = "_ng_scored_by"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "runtime").mkdir(mode=0o700)
    return {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}


@pytest.fixture
def project(tmp_path: Path, environment: dict[str, str]) -> Path:
    """An empty folder with a new environment."""
    folder = tmp_path / "project"
    folder.mkdir()
    done = run_gym(folder, environment, "env", "init", "lockbox")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def policy(tmp_path: Path, environment: dict[str, str]) -> Iterator[list[str]]:
    with started([*GYM, "mock-engine", "--json"], tmp_path, environment) as engine:
        assert engine.stdout is not None
        url = json.loads(engine.stdout.readline())["base_url"]
        yield ["--url", url, "--model", "mock"]


@contextmanager
def started(
    command: Sequence[str], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    with (folder / "stderr.txt").open("a") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


class Runs:
    """Runs of the environment with one output."""

    def __init__(self, folder: Path, environment: dict[str, str], policy: Sequence[str]) -> None:
        self._folder = folder
        self._environment = environment
        self._line = ["eval", "run", "lockbox", *policy, "-o", "r.jsonl", "++head_server.port=0"]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_gym(self._folder, self._environment, *self._line, *words)

    def resume(self, *words: str) -> str:
        """Resume, and return what was printed. The run must be complete."""
        done = self.run("--resume", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refuse(self, *words: str) -> str:
        """Resume, and return the message of the refusal."""
        done = self.run("--resume", *words)
        assert done.returncode == 2, done.stdout + done.stderr
        return done.stderr

    def rows(self, name: str = "r.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self._folder / name).read_text().splitlines()]

    def manifest(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self._folder / "r_run.json").read_text())
        return document


@pytest.fixture
def runs(project: Path, environment: dict[str, str], policy: list[str]) -> Runs:
    return Runs(project, environment, policy)


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_a_changed_reward_is_refused_or_marked(project: Path, runs: Runs) -> None:
    app = project / "resources_servers" / "lockbox" / "app.py"
    assert runs.run("-n", "1").returncode == 0
    for name in ("notes.log", "cache/x.json", "__pycache__/a.pyc", ".app.py.swp", "logs/a.txt", "app.py~"):
        path = app.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("written while it ran")
    runs.resume("-n", "2")
    edit(app, "reward=float(", "reward=0.5 * float(")
    refusal = runs.refuse("-n", "3")
    assert "resources_servers/lockbox/app.py has changed" in refusal
    for way in ("gym eval reverify", "--mark-new-code", "--overwrite"):
        assert way in refusal
    assert len(runs.rows()) == 10
    assert MARK in runs.resume("-n", "3", "--mark-new-code")
    rows, codes = runs.rows(), runs.manifest()["codes"]
    new = codes[1]["digest"]
    assert {(row["_ng_rollout_index"], row.get(MARK)) for row in rows} == {(0, None), (1, None), (2, new)}
    assert {row["reward"] for row in rows if MARK in row} == {0.0, 0.5}
    assert {row["reward"] for row in rows if MARK not in row} == {0.0, 1.0}
    assert len({each["code"]["files"]["resources_servers/lockbox/app.py"] for each in codes}) == 2
    runs.resume("-n", "4")
    assert {row.get(MARK) for row in runs.rows() if row["_ng_rollout_index"] == 3} == {new}


def test_modules_and_prompts_that_a_server_uses_are_its_code(project: Path, runs: Runs) -> None:
    app = project / "resources_servers" / "lockbox" / "app.py"
    common = project / "common"
    common.mkdir()
    (common / "scoring.py").write_text("def weigh(reward):\n    return reward\n")
    (app.parent / "prompts").mkdir()
    (app.parent / "prompts" / "judge.txt").write_text("Is it right?")
    edit(app, "    async def verify(", "    async def verify(")
    app.write_text(
        "from common.scoring import weigh\n" + app.read_text().replace("reward=float(", "reward=weigh(")
    )
    assert runs.run("-n", "1").returncode == 0
    edit(common / "scoring.py", "return reward", "return reward / 2")
    assert "common/scoring.py has changed" in runs.refuse("-n", "2")
    edit(common / "scoring.py", "return reward / 2", "return reward")
    runs.resume("-n", "2")
    (app.parent / "prompts" / "judge.txt").write_text("Is it wrong?")
    assert "resources_servers/lockbox/prompts/judge.txt has changed" in runs.refuse("-n", "3")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the source of the gym, with the servers that it starts by itself."""
    folder = tmp_path / "checkout"
    for name in ("nemo_gym", "responses_api_agents", "responses_api_models"):
        shutil.copytree(
            PARENT_DIR / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".venv")
        )
    shutil.copy(PARENT_DIR / "pyproject.toml", folder)
    return folder


def test_the_gym_of_a_checkout_is_code_of_a_run(
    project: Path, checkout: Path, environment: dict[str, str], policy: list[str]
) -> None:
    runs = Runs(project, {**environment, "PYTHONPATH": str(checkout)}, policy)
    assert runs.run("-n", "1").returncode == 0
    answers = checkout / "nemo_gym" / "verify" / "answers.py"
    answers.write_text(f"{answers.read_text()}\nIS_EDITED = True\n")
    refusal = runs.refuse("-n", "2")
    assert "nemo_gym/verify has changed" in refusal
    assert "nemo_gym/rows" not in refusal
    for way in ("gym eval reverify", "--mark-new-code", "--overwrite"):
        assert way in refusal
    runs.resume("-n", "2", "--mark-new-code")
    assert {row["_ng_rollout_index"] for row in runs.rows() if MARK in row} == {1}


def test_a_verifier_that_failed_always_may_be_mended(project: Path, runs: Runs) -> None:
    app = project / "resources_servers" / "lockbox" / "app.py"
    edit(app, "        (note,) =", "        raise RuntimeError('a bug')\n        (note,) =")
    assert runs.run("-n", "1").returncode != 0
    edit(app, "        raise RuntimeError('a bug')\n", "")
    runs.resume("-n", "1")
    assert len(runs.rows()) == 5
    assert not [row for row in runs.rows() if MARK in row]


def task(name: str) -> str:
    row = {
        "responses_create_params": {"input": f"question {name}"},
        "notes": {"left": name},
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
    }
    return json.dumps(row) + "\n"


def test_tasks_are_added_by_their_content(project: Path, runs: Runs) -> None:
    tasks = project / "t.jsonl"
    tasks.write_text("".join(map(task, "abcd")))
    words = ("-i", "t.jsonl", "-n", "2")
    assert runs.run(*words).returncode == 0
    tasks.write_text("".join(map(task, ["new", *"abcd"])))
    assert "--add-tasks" in runs.refuse(*words)
    printed = runs.resume(*words, "--add-tasks")
    assert "4 of the run, 1 new" in printed

    def notes(name: str) -> dict[int, str]:
        return {row["_ng_task_index"]: row["notes"]["left"] for row in runs.rows(name)}

    expected = dict(enumerate([*"abcd", "new"]))
    assert notes("r.jsonl") == notes("r_materialized_inputs.jsonl") == expected
    assert len(runs.rows()) == 10
    tasks.write_text("".join(map(task, ["d", "new", "a"])))
    assert "2 of the run are not in the input any more" in runs.resume(
        "-i", "t.jsonl", "-n", "3", "--add-tasks"
    )
    assert notes("r.jsonl") == {0: "a", 3: "d", 4: "new"}
    assert notes("r_unplanned_1.jsonl") == {1: "b", 2: "c"}
    (metrics,) = json.loads((project / "r_aggregate_metrics.json").read_text())
    assert metrics["agent_metrics"]["count/rollouts"] == 9
    tasks.write_text(task("other"))
    assert "has no task of the run" in runs.refuse(*words, "+allow_identity_change=true")


def test_the_gym_of_another_folder_is_used_only_if_it_is_named(
    tmp_path: Path, project: Path, environment: dict[str, str], policy: list[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "t.jsonl").write_text(task("a"))
    line = ("eval", "run", "--no-serve", "-a", AGENT, "-i", "t.jsonl", "-o", "r.jsonl")
    start = [*GYM, "env", "start", "lockbox", *policy, "--json", "++head_server.port=0"]
    with started(start, project, environment) as process:
        wait_until(lambda: run_gym(project, environment, "env", "status").returncode == 0)
        (found,) = json.loads(run_gym(project, environment, "env", "status", "--json").stdout)
        address = found["head"].removeprefix("http://")
        for words in (line, ("env", "scale", "lockbox=2")):
            done = run_gym(empty, environment, *words)
            assert done.returncode == 2
            assert "no gym runs in this folder" in done.stderr
            assert f"the gym of pid {process.pid} in {project} listens at {found['head']}" in done.stderr
            assert "--head HOST:PORT" in done.stderr
        assert run_gym(empty, environment, "env", "status").returncode == 1
        assert not (empty / "r.jsonl").exists()
        named = run_gym(empty, environment, *line, "--head", address)
        assert named.returncode == 0, named.stderr
        process.kill()
        process.wait()
    assert (project / ".nemo_gym_global_config.yaml").exists()  # a gym that is killed leaves its file
    gone = run_gym(project, environment, *line[:-4], "-i", str(empty / "t.jsonl"), "-o", "r.jsonl")
    assert gone.returncode == 2
    assert "no gym runs in this folder" in gone.stderr


def test_answers_that_a_server_reads_are_part_of_a_run(project: Path, runs: Runs) -> None:
    data = project / "resources_servers" / "lockbox" / "data"
    (data / "gold.json").write_text('{"a": 1}')
    assert runs.run("-n", "1").returncode == 0
    (data / "train.jsonl").write_text(task("another dataset"))
    (data / "shop.sqlite-wal").write_text("written while it ran")
    runs.resume("-n", "2")
    (data / "gold.json").write_text('{"a": 2}')
    refusal = runs.refuse("-n", "3")
    assert "resources_servers/lockbox/data/gold.json has changed" in refusal
    assert "--mark-new-code" in refusal
    assert MARK in runs.resume("-n", "3", "--mark-new-code")


def test_another_engine_of_the_same_name_is_refused_or_marked(
    tmp_path: Path, project: Path, environment: dict[str, str]
) -> None:
    def run_on(engine: subprocess.Popen[str], *words: str) -> subprocess.CompletedProcess[str]:
        assert engine.stdout is not None
        url = json.loads(engine.stdout.readline())["base_url"]
        policy = ["--url", url, "--model", "mock", "--model-api-key", "sk-never-written-down"]
        return Runs(project, environment, policy).run(*words)

    start = [*GYM, "mock-engine", "--json"]
    longer = [*start, "+max_model_len=4321"]
    with started(start, tmp_path, environment) as engine:
        assert run_on(engine, "-n", "1").returncode == 0
    with started(start, tmp_path, environment) as engine:  # the same at another port
        done = run_on(engine, "-n", "2", "--resume")
        assert done.returncode == 0, done.stderr
    with started(longer, tmp_path, environment) as engine:
        done = run_on(engine, "-n", "3", "--resume")
        assert done.returncode == 2
        assert "engines.policy_model.max_model_len" in done.stderr
        assert "--mark-new-engine" in done.stderr
    with started(longer, tmp_path, environment) as engine:
        done = run_on(engine, "-n", "3", "--resume", "--mark-new-engine")
        assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (project / "r.jsonl").read_text().splitlines()]
    assert {row["_ng_rollout_index"] for row in rows if MARK in row} == {2}
    assert "sk-never-written-down" not in (project / "r_run.json").read_text()


def test_a_gym_whose_files_were_edited_is_restarted_or_used_as_it_runs(
    project: Path, environment: dict[str, str], policy: list[str]
) -> None:
    app = project / "resources_servers" / "lockbox" / "app.py"
    tasks = "resources_servers/lockbox/data/example.jsonl"
    line = ("eval", "run", "--no-serve", "-a", AGENT, "-i", tasks, "-o", "r.jsonl")
    start = [*GYM, "env", "start", "lockbox", *policy, "--json", "++head_server.port=0"]
    with started(start, project, environment):
        wait_until(lambda: run_gym(project, environment, "env", "status").returncode == 0)
        assert run_gym(project, environment, *line).returncode == 0
        edit(app, "reward=float(", "reward=0.5 * float(")
        refused = run_gym(project, environment, *line, "--overwrite")
        assert refused.returncode == 2
        assert "resources_servers/lockbox/app.py has changed" in refused.stderr
        assert "gym env start" in refused.stderr
        used = run_gym(project, environment, *line, "--overwrite", "--use-running-code")
        assert used.returncode == 0, used.stderr
        edit(app, "reward=0.5 * float(", "reward=float(")
        assert run_gym(project, environment, *line, "--overwrite").returncode == 0
