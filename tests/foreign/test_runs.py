"""`gym eval run` of several kinds in one command, killed and resumed: exact counts, tokens, and no process left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rows.calls import read_calls
from nemo_gym.sources.foreign.process import HOST_FOLDER
from nemo_gym.tokens.segments import build_segments
from tests.e2e.gym_command import GYM
from tests.e2e.gym_run import read_lines
from tests.foreign.conftest import FOLDER
from tests.foreign.test_openenv import PACKAGES, copy_folder
from tests.waiting import wait_until

pytestmark = pytest.mark.foreign

REPEATS, KILLS = 4, 3
TASKS = int(os.environ.get("NEMO_GYM_TEST_ROLLOUTS", "1008")) // 4 // REPEATS


SCRIPT = """\
- match: Kuhn Poker
  turns: [text: "[check]", text: "[bet]", text: "[call]"]
- match: 5 word story
  turns:
  - tool_calls: [{name: print_story, arguments: {story: one two three four five}}]
- match: Guess a number
  turns:
  - tool_calls: [{name: act, arguments: {number: 5}}]
  - tool_calls: [{name: act, arguments: {number: 15}}]
  - tool_calls: [{name: act, arguments: {number: 9}}]
- match: Mastermind
  turns: [text: "[1 2 3 4]", text: "[3 4 5 6]", text: "[1 2 3 4]"]
- turns: [text: "[0 1]"]
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    script = tmp_path_factory.mktemp("engine") / "script.yaml"
    script.write_text(SCRIPT)
    with EngineProcess(EngineOptions(policy="script", script=script)) as engine:
        yield engine


def build_line(folder: Path, url: str, names: list[str], *arguments: str) -> list[str]:
    return [
        *(*GYM, "eval", "run", *names, "--url", url, "--model", "mock"),
        *("--model-type", "vllm_model/vllm_model_for_training", "-o", "out.jsonl", "--json"),
        *("++head_server.port=0", f"+venvs={FOLDER}", *arguments),
    ]


def start(folder: Path, line: list[str]) -> subprocess.Popen[str]:
    (folder / "runtime").mkdir(mode=0o700, exist_ok=True)
    return subprocess.Popen(
        line,
        cwd=folder,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder / "runtime")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def list_hosts(folder: Path) -> list[psutil.Process]:
    """Return the hosts of gyms that run in `folder`, and those that no gym has."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if str(HOST_FOLDER / "__main__.py") in line and process.is_running():
            above = [each.cwd() for each in process.parents() if each.pid != 1]
            if not above or str(folder) in above:
                found.append(process)
    return found


def count_rows(path: Path) -> int:
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def check_tokens(row: dict[str, Any]) -> int:
    """Return the number of the row's model calls, all of which have the tokens that the engine sampled."""
    records = read_calls(row)
    played = row.get("foreign_agent", {}).get("calls")  # where the environment calls the model itself
    count = len(row["step_rewards"]) if played is None else sum(played.values())
    assert [record.masked for record in records] == [None] * count
    assert sum(sum(segment.loss_mask) for segment in build_segments(records)) > 0
    return len(records)


def test_a_thousand_rollouts_of_four_kinds_survive_three_kills(
    tmp_path: Path, engine: EngineProcess, find_python: Callable[[str], Path]
) -> None:
    kinds = ("textarena", "aviary", "openenv", "verifiers")
    for kind in kinds:
        find_python(kind)
    guess, sums = (copy_folder(PACKAGES / name, tmp_path / "envs") for name in ("guess_env", "vf_sums"))
    module = sums / "vf_sums.py"
    module.write_text(module.read_text().replace("range(4)", f"range({TASKS})"))
    names = ["textarena:KuhnPoker-v0", "aviary:dummy", f"openenv:{guess}", f"verifiers:{sums}"]
    arguments = ["--limit", str(TASKS), "-n", str(REPEATS), "--concurrency", "64"]
    line = build_line(tmp_path, engine.base_url, names, *arguments)
    total = len(names) * TASKS * REPEATS
    for kill in range(KILLS):
        process = start(tmp_path, [*line, *(["--resume"] if kill else [])])
        goal = (kill + 1) * total // (KILLS + 2)
        while count_rows(tmp_path / "out.jsonl") < goal:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        wait_until(lambda: not list_hosts(tmp_path))
    process = start(tmp_path, [*line, "--resume"])
    most_memory = 0
    while process.poll() is None:
        with_children = [psutil.Process(process.pid)]
        most_memory = max(most_memory, sum(each.memory_info().rss for each in with_children))
        time.sleep(0.5)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    rows = read_lines(tmp_path / "out.jsonl")
    counted = Counter(row["foreign"]["kind"] for row in rows)
    assert counted == dict.fromkeys(kinds, TASKS * REPEATS)
    assert len({(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows}) == total
    assert count_rows(tmp_path / "out_failures.jsonl") == 0
    calls = sum(map(check_tokens, rows))
    print(f"{total} rollouts, {calls} model calls, the collector had {most_memory >> 20} MiB")
    assert not list_hosts(tmp_path)


def test_rewards_of_a_run_are_those_of_the_environment(
    tmp_path: Path, engine: EngineProcess, find_python: Callable[[str], Path]
) -> None:
    find_python("textarena")
    names = ["textarena:Mastermind-v0", "textarena:Nim-v0"]
    process = start(tmp_path, build_line(tmp_path, engine.base_url, names, "+tasks=3", "+seed=7", "-n", "2"))
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    rows = read_lines(tmp_path / "out.jsonl")
    assert sorted({row["foreign"]["seed"] for row in rows}) == [7, 8, 9]
    nim = {row["_ng_rollout_index"]: row for row in rows if row["foreign"]["name"] == "Nim-v0"}
    assert {index: row["info"]["seat"] for index, row in nim.items()} == {0: 0, 1: 1}
    for row in rows:
        told = row["info"]
        assert row["reward"] == row["step_rewards"][-1]
        assert row["invalid_move"] == int(told["invalid_move"])
        assert row["foreign"]["license"] == "MIT"


MISTAKES = {
    "textarea:Nim-v0": "Did you mean 'textarena'?",
    "textarena:Nimm-v0": "TextArena has no game 'Nimm-v0', but Nim-v0",
    "textarena:Wordle-v0": "needs data of NLTK",
    "textarena:Nim-v0 mcqa": "not with 'mcqa'",
    "textarena:Nim-v0 +tasks=none": "+tasks=none cannot be used",
    "textarena:Nim-v0 +tasks=0": "+tasks=0 cannot be used",
    "textarena:Nim-v0 +seed=x": "+seed=x cannot be used",
    "textarena:Nim-v0 +max_steps=0": "+max_steps=0 cannot be used",
    "textarena:Nim-v0 +options=4": "+options=4 cannot be used",
    "textarena:Nim-v0 +options={seats:3}": "a game has no options seats",
    "textarena:Nim-v0 +options={players:9}": "cannot be used",
    "textarena:Nim-v0 +opponent=nobody": "nobody",
    "textarena:Nim-v0 +task=3": "task",
    "textarena:": "textarena:",
    "openenv:there/is/none": "There is no folder",
    "openenv:.": "has no openenv.yaml",
    "ors:there/is/none": "There is no folder",
    "ors:http://127.0.0.1:1": "cannot be reached",
    "ors:http://user:word@127.0.0.1:1": "user names, passwords",
    "aviary:gsm9k": "aviary has no data set 'gsm9k', but gsm8k",
    "aviary:calculator": "aviary has no data set 'calculator'",
    "aviary:dummy +options={task:1}": "aviary has no options task",
    "aviary:calculator +options={tasks:[{problem:1}]}": "cannot be used: TypeError",
}
"""The likeliest mistakes, and words of their messages."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_before_anything_starts(
    mistake: str, tmp_path: Path, engine: EngineProcess, find_python: Callable[[str], Path]
) -> None:
    for kind in ("textarena", "aviary", "openenv", "ors"):
        find_python(kind)
    tmp_path.chmod(0o755)  # `openenv:.` is read by the user of a host
    names = mistake.split()
    process = start(tmp_path, build_line(tmp_path, engine.base_url, names[:1], *names[1:]))
    told = "".join(process.communicate())
    assert (process.returncode, MISTAKES[mistake] in told) == (2, True), told
    assert not (tmp_path / "out.jsonl").exists()
