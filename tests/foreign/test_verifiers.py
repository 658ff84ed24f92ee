"""Environments of verifiers in runs of the gym, and by their own runner: same prompts, calls, ends and rewards."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.foreign.environment import build_program
from nemo_gym.sources.foreign.rows import read_listing
from tests.e2e.gym_run import read_lines
from tests.foreign.conftest import FOLDER
from tests.foreign.scripted_engine import Answer, ScriptedEngine
from tests.foreign.test_openenv import copy_folder
from tests.foreign.test_runs import build_line, start

pytestmark = pytest.mark.foreign

NATIVE = Path(__file__).with_name("native_verifiers.py")
PACKAGES = Path(__file__).with_name("packages")
EXAMPLES = Path(__file__).resolve().parents[3] / "shared/data/foreign_examples/verifiers/environments"
TURNS = 6
ENDS = {
    "agent_completed": "final_answer",
    "user_closed": "terminated",
    "max_turns": "max_steps",
    "heard_enough": "terminated",
    "stop_guard": "terminated",
    "done": "terminated",
}
COLOURS = ["ff0000", "00ff00", "0000ff", "ffff00", "800080", "00ffff", "ffa500", "ffffff", "000000"]


@pytest.fixture(scope="module")
def python(find_python: Callable[[str], Path]) -> Path:
    return find_python("verifiers")


def count(prompt: list[str]) -> int:
    """Return a number that depends on the prompt alone."""
    return int.from_bytes(hashlib.sha256(json.dumps(prompt).encode()).digest()[:4], "big")


def choose(prompt: list[str], asked: int) -> Answer:
    """Play every environment of these tests: mostly well, and always the same."""
    for pattern, play in PLAYERS.items():
        if re.search(pattern, "\n".join(prompt)):
            return play(prompt, asked)
    raise AssertionError(f"there is no player for {prompt}")


def play_cards(prompt: list[str], asked: int) -> Answer:
    offered = re.findall(r"\[\w+\]", prompt[-1].split("legal")[-1])
    number = count(prompt)
    return Answer("I pass." if number % 7 == 0 else f"I choose {offered[number % len(offered)]}")


def look_up(name: str, key: str) -> Callable[[list[str], int], Answer]:
    def play(prompt: list[str], asked: int) -> Answer:
        if prompt[-1].startswith("tool: "):
            return Answer(f"<answer>{prompt[-1].removeprefix('tool: ')}</answer>")
        word = re.findall(r'(?:"|: )([A-Z]?[\w ]+)"?', prompt[-1])[-1]
        return Answer(None, name, {key: word}) if count(prompt) % 3 else Answer("I guess.")

    return play


def play_scratchpad(prompt: list[str], asked: int) -> Answer:
    if prompt[-1].startswith("tool: "):
        return Answer(prompt[-1].removeprefix("tool: "))
    word = re.findall(r'word="(\w+)"', prompt[-1])[-1]
    return Answer(None, "scratchpad_roundtrip", {"word": word}) if count(prompt) % 4 else Answer("none")


def read_colour(url: str) -> str:
    """Return the letter of the first pixel of a PNG."""
    data = base64.b64decode(url)
    start = data.index(b"IDAT")
    size = int.from_bytes(data[start - 4 : start], "big")
    row = zlib.decompress(data[start + 4 : start + 4 + size])
    return "ABCDEFGHI"[COLOURS.index(row[1:4].hex())]


def play_colours(prompt: list[str], asked: int) -> Answer:
    urls = [url for part in prompt for url in re.findall(r"base64,([\w+/]+=*)", part)]
    letters = "".join(map(read_colour, urls))
    return Answer(letters if count(prompt) % 3 else letters[::-1])


def play_marker(prompt: list[str], asked: int) -> Answer:
    return Answer("BLOCK" if "Candidate:" in prompt[-1] else prompt[-1].split()[-1].rstrip("."))


def play_golf(prompt: list[str], asked: int) -> Answer:
    program = {"100": "print(5050)", "HELLO": "print('OLLEH')"}
    found = next((each for word, each in program.items() if word in prompt[-1]), "print(0)")
    return Answer(f"```python\n{found if asked % 2 == 0 else 'print(1)'}\n```")


def play_proposer(prompt: list[str], asked: int) -> Answer:
    return Answer('{"problem": "How much is six times seven?", "answer": 42}')


PLAYERS: dict[str, Callable[[list[str], int], Answer]] = {
    "Kuhn poker": play_cards,
    "facts_lookup": look_up("facts_lookup", "name"),
    "Look up:": look_up("words_look_up", "word"),
    "scratchpad_roundtrip": play_scratchpad,
    "colored squares": play_colours,
    "_BLOCK|STOP|METRIC_ONLY": play_marker,
    "```python code block": play_golf,
    "Invent ONE": play_proposer,
    "six times seven": lambda prompt, asked: Answer("It is 42" if asked % 4 else "It is 41"),
    "Sum:": lambda prompt, asked: Answer("It is 9" if count(prompt) % 2 else "12"),
    "Referee:": lambda prompt, asked: Answer("yes" if count(prompt) % 2 else "no"),
    "Bargain as": lambda prompt, asked: Answer(f"I say {count(prompt) % 20}"),
    "Patience:": lambda prompt, asked: Answer("enough" if count(prompt) % 3 == 0 else "go on"),
    "Fail:": lambda prompt, asked: Answer("So be it."),
}


def play_natively(
    python: Path, folder: Path, options: dict[str, Any], tasks: list[int], turns: int
) -> tuple[list[dict[str, Any]], list[list[list[str]]]]:
    with ScriptedEngine(choose) as engine:
        given = {"folder": str(folder), "options": options, "tasks": tasks, "url": engine.base_url}
        done = subprocess.run(
            [python, "-s", str(NATIVE), json.dumps({**given, "turns": turns})],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), engine.split_by_marks()


class Played:
    """A run of the gym, one rollout after the other."""

    def __init__(self, folder: Path, source: Path, *arguments: str) -> None:
        with ScriptedEngine(choose) as engine:
            line = build_line(
                folder, engine.base_url, [f"verifiers:{source}"], "--concurrency", "1", *arguments
            )
            line[line.index("vllm_model/vllm_model_for_training")] = "vllm_model"
            process = start(folder, line)
            self.told = "".join(process.communicate())
            self.status, self.log = process.returncode, engine.log
        self.rows = read_lines(folder / "out.jsonl") if (folder / "out.jsonl").exists() else []

    def split_by_rows(self) -> Iterator[list[list[str]]]:
        """Return the prompts and answers of each row."""
        end = 0
        for row in self.rows:
            begin, end = end, end + sum(row["foreign_agent"]["calls"].values())
            yield self.log[begin:end]
        assert end == len(self.log)


def name_runs(traces: list[dict[str, Any]], runs: dict[str, int]) -> dict[str, dict[str, Any]]:
    """Return the native runs by the names of seats here."""
    found: dict[str, dict[str, Any]] = {}
    for trace in traces:
        number = 1 + sum(name.split(".")[0] == trace["agent"] for name in found)
        found[f"{trace['agent']}.{number}" if runs.get(trace["agent"], 1) > 1 else trace["agent"]] = trace
    return found


def compare_row(row: dict[str, Any], native: dict[str, Any], runs: dict[str, int]) -> None:
    seat = name_runs(native["traces"], runs)
    own = seat[row["info"]["seat"]]
    assert native["ok"]
    assert row["reward"] == pytest.approx(own["reward"], abs=1e-12)
    assert row.get("reward_components", {}) == pytest.approx(own["rewards"])
    seen = row["foreign_agent"]
    called = {name: calls for name, calls in seen["calls"].items() if name in seat}
    assert called == seen["calls_seen"] == {name: each["calls"] for name, each in seat.items()}
    for name, value in own["metrics"].items():
        assert name == "latency" or row[name] == pytest.approx(value)
    stopped = {ENDS[each["stop"]] for name, each in seat.items() if name != "referee"}
    limits = stopped & {"max_steps"}
    expected = limits or (stopped if len(stopped) == 1 else {"terminated"})
    assert {row["_ng_end_reason"]} == expected


CASES: dict[str, tuple[int, int, dict[str, Any], int]] = {
    "vf_sums": (4, 1, {"taskset": {"largest": 9}}, TURNS),
    "vf_lookup": (3, 1, {}, TURNS),
    "vf_bargain": (2, 2, {"rounds": 2}, TURNS),
    "vf_patience": (4, 1, {}, 3),
    "kuhn_poker": (5, 2, {}, TURNS),
    "glossary": (5, 1, {}, TURNS),
    "scratchpad": (4, 1, {}, TURNS),
    "color_codeword": (3, 1, {"taskset": {"images_per_turn": 1}}, TURNS),
    "interception": (4, 1, {}, TURNS),
    "code_golf": (3, 1, {"runs": {"golfer": 2}}, TURNS),
    "proposer_solver": (1, 4, {"n": 3, "runs": {"solver": 3}}, TURNS),
}
"""Tasks, repeats, options and the limit of turns of each environment."""


def find_source(name: str, folder: Path) -> Path:
    return copy_folder((PACKAGES if name.startswith("vf_") else EXAMPLES) / name, folder)


@pytest.mark.parametrize("name", CASES)
def test_a_run_goes_as_in_the_runner_of_its_authors(name: str, tmp_path: Path, python: Path) -> None:
    tasks, repeats, options, turns = CASES[name]
    source = find_source(name, tmp_path)
    arguments = [
        f"+tasks={tasks}",
        "-n",
        str(repeats),
        f"+max_steps={turns}",
        f"+options={json.dumps(options)}",
    ]
    ours = Played(tmp_path, source, *arguments, "+max_attempts=1")
    own = {key: value for key, value in options.items() if key != "runs"}
    assert len(ours.rows) == tasks * repeats, ours.told
    order = [row["foreign"]["data"]["index"] for row in ours.rows]
    runs = options.get("runs", {})
    natively = (
        order if runs else sorted(set(order))
    )  # where runs compete, their answers depend on their order
    native, prompts = play_natively(python, source, own, natively, turns)
    for number, (row, asked) in enumerate(zip(ours.rows, ours.split_by_rows(), strict=True)):
        place = number if runs else natively.index(order[number])
        assert asked == prompts[place]
        compare_row(row, native[place], runs)


FAILURES = {
    "raises": ("verifier:verifier_error", "RuntimeError: the scorer broke"),
    "nan": ("verifier:bad_reward", "scored, is nan"),
    "none": ("verifier:bad_reward", "NoneType"),
    "text": ("verifier:bad_reward", "could not convert string to float"),
    "setup": ("environment:environment_error", "the setup broke"),
    "exits": ("environment:environment_error", "the task ended its process"),
    "no_metric": ("verifier:verifier_error", "the metric length of agent is inf"),
}


def test_an_attempt_that_fails_has_no_reward_and_spoils_no_other(tmp_path: Path, python: Path) -> None:
    ours = Played(tmp_path, find_source("vf_broken", tmp_path), "+max_attempts=1")
    (good,) = ours.rows
    assert (good["foreign"]["data"]["index"], good["reward"]) == (len(FAILURES), 1.0)
    failed = {row["_ng_task_index"]: row for row in read_lines(tmp_path / "out_failures.jsonl")}
    for index, (kind, told) in enumerate(FAILURES.values()):
        assert failed[index]["_ng_failure_class"] == kind
        assert told in failed[index]["_ng_failure"]["message"]
        assert "reward" not in failed[index]


def test_a_hundred_hands_of_both_seats_sum_to_zero(tmp_path: Path, python: Path) -> None:
    source = find_source("kuhn_poker", tmp_path)
    with ScriptedEngine(choose) as engine:
        arguments = ["+tasks=50", "-n", "2", "--concurrency", "4"]
        line = build_line(tmp_path, engine.base_url, [f"verifiers:{source}"], *arguments)
        process = start(tmp_path, ["vllm_model" if "for_training" in each else each for each in line])
        told = "".join(process.communicate())
    rows = read_lines(tmp_path / "out.jsonl")
    hands: dict[str, dict[str, float]] = {}
    for row in rows:
        hands.setdefault(row["foreign"]["task"], {})[row["info"]["seat"]] = row["reward"]
    assert len(hands) == 50, told
    assert {tuple(sorted(hand)) for hand in hands.values()} == {("player0", "player1")}
    assert {sum(hand.values()) for hand in hands.values()} == {0.0}
    assert {abs(row["reward"]) for row in rows} == {1.0, 2.0}


TASKSET = """
import verifiers.v1 as vf

__all__ = ["MyTaskset"]


class MyTask(vf.Task[vf.TaskData]):
    pass


class MyTaskset(vf.Taskset[MyTask, vf.TasksetConfig]):
    def load(self):
        {load}
        return [MyTask(vf.TaskData(prompt="Hello."{data}), self.config.task)]
"""
HUB = "from huggingface_hub import hf_hub_download; hf_hub_download('owner/name', 'rows.jsonl')"
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no pyproject": ({"pyproject": None}, "it has no pyproject.toml"),
    "no TOML": ({"pyproject": "[project"}, "is no TOML"),
    "no module": ({"module": None}, "it has no module my_env"),
    "no taskset": ({"module": "__all__ = []"}, "my_env is no taskset of verifiers 0.4"),
    "an older package": ({"module": "def load_environment(): ..."}, "my_env is no taskset of verifiers 0.4"),
    "a bug": ({"module": "1 / 0"}, "my_env cannot be loaded: ZeroDivisionError"),
    "a dependency": (
        {"needs": '"datasets>=3"'},
        "my_env needs datasets>=3, which the lock of verifiers lacks",
    ),
    "a version": ({"needs": '"verifiers<0.3"'}, "my_env needs verifiers<0.3"),
    "an import": ({"load": "import nltk"}, "my_env needs the module nltk, which the lock"),
    "the hub": ({"load": HUB}, "my_env needs the network, which environments lack here"),
    "the network": (
        {"load": "import urllib.request; urllib.request.urlopen('http://example.com')"},
        "my_env needs the network",
    ),
    "a key": ({"load": "import os; os.environ['MY_API_KEY']"}, "my_env needs the variable MY_API_KEY"),
    "an image": ({"data": ", image='python:3.11'"}, "task 0 of my_env needs an image, so a container"),
    "a container": ({"body": "NEEDS_CONTAINER = True"}, "the task MyTask of my_env needs a container"),
    "a harness": ({"options": {"harness": "codex"}}, "needs a container for the harness codex"),
    "no such harness": ({"options": {"harness": "cudex"}}, "cudex"),
    "a runtime": ({"options": {"agent": {"runtime": {"type": "docker"}}}}, "runtime of agent is no option"),
    "an address": ({"options": {"judge": {"base_url": "http://x"}}}, "base_url is no option"),
    "an option": ({"options": {"rounds": 3}}, "the options of my_env cannot be used: rounds"),
    "no such seat": ({"options": {"runs": {"golfer": 2}}}, "there is no seat 'golfer', but agent"),
    "no number": ({"options": {"runs": {"agent": 0}}}, "0 of agent is no number of runs"),
}


def write_package(
    folder: Path,
    pyproject: str | None = "[project]\nname = 'my-env'\nversion = '1'\ndependencies = [{needs}]",
    module: str | None = TASKSET,
    needs: str = "",
    body: str = "pass",
    **given: str,
) -> Path:
    folder.mkdir()
    folder.chmod(0o755)
    if pyproject is not None:
        (folder / "pyproject.toml").write_text(pyproject.replace("{needs}", needs))
    if module is not None:
        filled = module.replace("    pass", f"    {body}", 1)
        for name in ("load", "data"):
            filled = filled.replace(f"{{{name}}}", given.get(name, ""))
        (folder / "my_env.py").write_text(filled)
    return folder


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_before_anything_starts(mistake: str, tmp_path: Path, python: Path) -> None:
    given, told = MISTAKES[mistake]
    options = given.get("options", {})
    folder = write_package(
        tmp_path / "my-env", **{key: each for key, each in given.items() if key != "options"}
    )
    tmp_path.chmod(0o755)
    program = build_program(f"verifiers:{folder}", options, str(FOLDER))
    with pytest.raises(ConfigError, match=re.escape(told)):
        read_listing(program, 5, None, 0)


LINES = {
    "verifiers:glosary": "verifiers has no taskset 'glosary'",
    "verifiers:textarena": "textarena",
    "verifiers:there/is/none": "There is no folder",
    "verifiers:my_env +split=test": "+options={taskset: {split: test}}",
    "verifiers:my_env +options={seat:3}": "seat:3",
}


@pytest.mark.parametrize("mistake", LINES)
def test_a_mistake_in_a_command_line_is_told(mistake: str, tmp_path: Path, python: Path) -> None:
    write_package(tmp_path / "my_env")
    tmp_path.chmod(0o755)
    name, *arguments = mistake.split()
    with ScriptedEngine(choose) as engine:
        process = start(tmp_path, build_line(tmp_path, engine.base_url, [name], *arguments))
        told = "".join(process.communicate())
    assert (process.returncode, LINES[mistake] in told) == (2, True), told
    assert not (tmp_path / "out.jsonl").exists()
