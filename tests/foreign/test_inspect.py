"""Tasks of Inspect through the gym and by Inspect's own runner: same prompts, calls, ends and scores."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.engines.record.store import CAPTURE_DIR_KEY
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import dump_json
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rollouts.lookback.trajectories import read_rows
from nemo_gym.rows.identity import identity_in
from nemo_gym.sources.foreign.environment import ForeignServer, build_program
from nemo_gym.sources.foreign.rows import list_environment
from nemo_gym.sources.inspect_logs.writing import build_header, write_sample
from nemo_gym.testing import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.foreign_agent.app import ForeignAgent
from responses_api_models.vllm_model.app import VLLMModel
from tests.foreign.conftest import FOLDER
from tests.foreign.recording import EngineRecorder, recording
from tests.sources.atif.trajectory_rows import build_rows

pytestmark = pytest.mark.foreign

NATIVE = Path(__file__).with_name("native_inspect.py")
TASKS = Path(__file__).with_name("packages") / "inspect_tasks" / "tasks.py"
EVALS = {
    "inspect_evals/mind2web_sc": ["mind2web_sc_690dd246", "mind2web_sc_ca08c853"],
    "inspect_evals/agent_threat_bench_memory_poison": ["mp_001", "mp_002"],
    "inspect_evals/tau2_airline": ["0", "1"],
}
"""The samples of each that are played."""
SCRIPT = """\
- match: User Simulation Guidelines
  turns: [text: "I want to cancel my flight.", text: "###STOP###"]
- match: assess
  turns: [text: "The city is right.\\n\\nGRADE: C"]
- match: You are the user
  turns: [text: "Are you sure?"]
- match: capital of Norway
  turns: [text: "Oslo, please."]
- match: capital of France
  turns: [text: "Lyon"]
- match: Which one is even
  turns: [text: "ANSWER: B"]
- match: Write the sum
  turns:
  - tool_calls: [{name: run, arguments: {command: cat number.txt}}]
  - tool_calls: [{name: run, arguments: {command: printf 23 > answer.txt}}]
  - text: It is written.
- match: Which folder
  turns:
  - tool_calls: [{name: run, arguments: {command: "false; echo here"}}]
  - text: I think I know.
  - tool_calls: [{name: submit, arguments: {answer: here}}]
- turns: [text: "I do not know."]
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    script = tmp_path_factory.mktemp("engine") / "script.yaml"
    script.write_text(SCRIPT)
    with EngineProcess(EngineOptions(policy="script", script=script, model="policy")) as engine:
        yield engine


@pytest.fixture(scope="module")
def recorder(engine: EngineProcess) -> Iterator[EngineRecorder]:
    with recording(engine.base_url) as recorder:
        yield recorder


@pytest.fixture(scope="module")
def python(find_python: Callable[[str], Path]) -> Path:
    return find_python("inspect")


def copy_tasks(folder: Path) -> Path:
    folder.chmod(0o755)
    return Path(shutil.copy(TASKS, folder))


class InspectGym(InProcessGym):
    """An environment with its agent, the policy's model server and that of all roles."""

    def __init__(
        self, folder: Path, source: str, urls: dict[str, str], options: dict[str, Any], **terms: Any
    ) -> None:
        super().__init__()
        self.config[CAPTURE_DIR_KEY] = str(folder / "records")
        for name, url in urls.items():
            self.add(VLLMModel, name, base_url=url, api_key="none", model="policy")
        other = {"opponent_model_server": refer("responses_api_models", "others")}
        about = {"source": source, "options": options, "venvs": str(FOLDER), "max_hosts": 1}
        self.add(ForeignServer, "env", **about, **other)
        references = {
            "resources_server": refer("resources_servers", "env"),
            "model_server": refer("responses_api_models", "policy_model"),
        }
        self.add(ForeignAgent, "agent", **references, **terms)


def refer(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "name": name}


@asynccontextmanager
async def open_gym(
    folder: Path, source: str, recorder: EngineRecorder, options: dict[str, Any] | None = None, **terms: Any
) -> AsyncIterator[tuple[InspectGym, list[Any]]]:
    """Yield a running gym and the task rows of its environment. Its models ask as `folder`, and `folder-others`."""
    options = options or {}
    listing = await list_environment(build_program(source, options, str(FOLDER)), 1000)
    name = folder.name
    urls = {"policy_model": recorder.build_url(name), "others": recorder.build_url(f"{name}-others")}
    gym = InspectGym(folder, source, urls, options, **terms)
    async with gym.running():
        rows = listing.build_rows("inspect", "agent", None, 0)
        chosen = EVALS.get(source.partition(":")[2])
        yield gym, [row for row in rows if chosen is None or row["foreign"]["data"]["sample"] in chosen]


async def play(
    folder: Path, source: str, recorder: EngineRecorder, options: dict[str, Any] | None = None, **terms: Any
) -> list[dict[str, Any]]:
    async with open_gym(folder, source, recorder, options, **terms) as (gym, rows):
        return [await gym.run("agent", row) for row in rows]


Samples = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Inspect's own runner, with a folder of logs for each case."""
    return tmp_path_factory.mktemp("native")


@pytest.fixture(scope="module")
def native(python: Path, recorder: EngineRecorder, folder: Path) -> dict[str, Samples]:
    """The samples of every case as Inspect's own runner plays them."""
    file = copy_tasks(folder)
    asked = [
        {
            "task": f"{file.name}@{task}" if "/" not in task else task,
            "arguments": options.get("arguments", {}),
            "sandbox": options.get("sandbox"),
            "samples": EVALS.get(task),
            "logs": str(folder / name_native(case)),
            "format": "json" if case in JSON_LOGS else "eval",
            "urls": [
                recorder.build_url(name_native(case)),
                recorder.build_url(f"{name_native(case)}-others"),
            ],
        }
        for case, (task, options, _) in CASES.items()
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0", "HOME": str(folder)}
    line = [str(python), str(NATIVE), json.dumps(asked)]
    printed = subprocess.check_output(line, text=True, env=environment, cwd=folder)
    return dict(zip(CASES, json.loads(printed), strict=True))


def name_native(case: str) -> str:
    return f"native-{[*CASES].index(case)}"


def compare(row: dict[str, Any], native: dict[str, Any]) -> None:
    assert {name: row[name] for name in native["scores"]} == native["scores"]
    assert row["messages"] == native["messages"]
    limit = (row["info"]["native"]["limit"] or {}).get("type")
    assert (limit, native["is_error"]) == (native["limit"], False)
    assert (row["_ng_outcome"] == "truncated") is (native["limit"] is not None)


CASES: dict[str, tuple[str, dict[str, Any], list[float]]] = {
    "one turn": ("capitals", {}, [1.0, 0.0, 0.0]),
    "a prompt of the solver": ("choices", {}, [1.0, 1.0]),
    "tools": ("files", {}, [1.0, 0.0]),
    "a limit of messages": ("files", {"arguments": {"message_limit": 4}}, [1.0, 0.0]),
    "an agent that submits": ("agent", {}, [1.0]),
    "one of several scorers": ("several", {"scorer": "match"}, [1.0, 0.0, 0.0]),
    "a value of a scorer": ("several", {"scorer": "manners", "value": "length"}, [13.0, 4.0, 14.0]),
    "a grader": ("graded", {}, [1.0, 1.0, 1.0]),
    "a user": ("conversation", {}, [1.0]),
    "a web page": ("inspect_evals/mind2web_sc", {"sandbox": "local"}, [0.0, 0.0]),
    "a poisoned memory": ("inspect_evals/agent_threat_bench_memory_poison", {"value": "utility"}, [0.0, 0.0]),
    "an airline": ("inspect_evals/tau2_airline", {}, [1.0, 1.0]),
}


JSON_LOGS = ("tools", "a grader")
"""The others have logs in Inspect's own form."""


@pytest.mark.parametrize("case", CASES)
async def test_samples_are_played_as_by_the_runner_of_inspect(
    case: str, tmp_path: Path, recorder: EngineRecorder, native: dict[str, Samples]
) -> None:
    task, options, rewards = CASES[case]
    source = task if "/" in task else f"{copy_tasks(tmp_path)}@{task}"
    rows = await play(tmp_path, f"inspect:{source}", recorder, options)
    for suffix in ("", "-others"):
        wanted = recorder.list_prompts(f"{name_native(case)}{suffix}")
        asked = recorder.list_prompts(f"{tmp_path.name}{suffix}")
        # A prompt has all before it, and Inspect plays samples that are shuffled in any order.
        assert sorted(map(json.dumps, asked)) == sorted(map(json.dumps, wanted))
    assert [row["reward"] for row in rows] == rewards
    assert {row["foreign"]["data"]["sample"] for row in rows} == set(native[case])
    for row in rows:
        compare(row, native[case][row["foreign"]["data"]["sample"]])
        calls = row["foreign_agent"]
        assert calls["calls"] == calls["calls_seen"]


async def test_a_scorer_without_a_model_of_its_own_is_in_no_record_of_the_policy(
    tmp_path: Path, recorder: EngineRecorder, python: Path
) -> None:
    (row,) = await play(tmp_path, f"inspect:{copy_tasks(tmp_path)}@graded_by_itself", recorder)
    assert row["reward"] == 1.0
    assert row["foreign_agent"]["calls"] == {"agent": 1, "grader": 1, "user": 0}
    assert len(recorder.list_prompts(tmp_path.name)) == 1
    (asked,) = recorder.list_prompts(f"{tmp_path.name}-others")
    assert "assess" in asked[-2][1]


async def test_an_attempt_ends_at_its_model_calls_and_is_scored(
    tmp_path: Path, recorder: EngineRecorder, python: Path
) -> None:
    source = f"inspect:{copy_tasks(tmp_path)}@files"
    rows = await play(tmp_path, source, recorder, max_steps=2)
    for row in rows:
        assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("truncated", "max_steps")
        assert row["foreign_agent"]["calls"]["agent"] == 2
    assert [row["reward"] for row in rows] == [1.0, 0.0]


async def test_nothing_of_an_attempt_is_left_for_the_next(
    tmp_path: Path, recorder: EngineRecorder, python: Path
) -> None:
    source = f"inspect:{copy_tasks(tmp_path)}@remembering"
    async with open_gym(tmp_path, source, recorder) as (gym, rows):
        for _ in range(3):
            await gym.run("agent", rows[0])
        prompts = recorder.list_prompts(tmp_path.name)
    assert [prompt[1][1] for prompt in prompts] == ["You have seen 1."] * 3


FAILURES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "a solver": ("broken_solver", {}, "environment:environment_error", "the solver is broken"),
    "a scorer": ("scored", {}, "verifier:verifier_error", "the scorer is broken"),
    "a text": ("scored", {"arguments": {"value": "many"}}, "verifier:bad_reward", "'many'"),
    "no number": ("scored", {"arguments": {"value": "nan"}}, "verifier:bad_reward", "nan"),
    "a role that no source names": (
        "stranger",
        {},
        "environment:unsupported",
        "+options={roles: [stranger]}",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_an_attempt_without_a_score_is_a_failure(
    case: str, tmp_path: Path, recorder: EngineRecorder, python: Path
) -> None:
    task, options, kind, told = FAILURES[case]
    with pytest.raises(UpstreamError) as raised:
        await play(tmp_path, f"inspect:{copy_tasks(tmp_path)}@{task}", recorder, options)
    failure = raised.value.failure
    assert failure is not None
    assert failure.kind == kind
    assert told in failure.message


async def test_a_model_that_does_not_answer_is_a_failure_of_the_engine(tmp_path: Path, python: Path) -> None:
    with recording("http://127.0.0.1:9/v1") as dead, pytest.raises(UpstreamError) as raised:
        await play(tmp_path, f"inspect:{copy_tasks(tmp_path)}@capitals", dead)
    failure = raised.value.failure
    assert failure is not None
    assert failure.boundary == "engine"


MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "no file": ("absent.py@capitals", {}, "There is no file"),
    "no task": ("tasks.py@capitols", {}, "and no 'capitols'"),
    "several tasks": ("tasks.py", {}, "tasks.py@capitals, tasks.py@choices"),
    "no package": ("inspect_evals/mindweb", {}, "but inspect_evals/mind2web"),
    "no data": ("inspect_evals/gsm8k", {}, "a host has no network"),
    "no option": ("tasks.py@capitals", {"scorers": "match"}, "inspect has no options scorers"),
    "no argument": (
        "tasks.py@files",
        {"arguments": {"limit": 3}},
        "no arguments limit; it takes message_limit",
    ),
    "several scorers": ("tasks.py@several", {}, "+options={scorer: match or manners}"),
    "no such scorer": ("tasks.py@several", {"scorer": "mattch"}, "no scorer 'mattch', but match, manners"),
    "several values": ("tasks.py@several", {"scorer": "manners"}, "+options={value: length or polite}"),
    "no scorer": ("tasks.py@unscored", {}, "no scorer, and so no reward"),
    "a container": ("tasks.py@container", {}, "wants the sandbox docker"),
    "a sandbox": ("tasks.py@capitals", {"sandbox": "docker"}, "only 'local'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_is_told_before_anything_starts(mistake: str, tmp_path: Path, python: Path) -> None:
    name, options, told = MISTAKES[mistake]
    copy_tasks(tmp_path)
    source = f"inspect:{tmp_path / name if '.py' in name else name}"
    with pytest.raises(ConfigError) as raised:
        await list_environment(build_program(source, options, str(FOLDER)), 1)
    assert told in str(raised.value)


@pytest.mark.parametrize("case", CASES)
def test_a_log_of_inspect_is_rows(case: str, folder: Path, native: dict[str, Samples]) -> None:
    (log,) = (folder / name_native(case)).iterdir()
    assert log.suffix == (".json" if case in JSON_LOGS else ".eval")
    found = read_rows(log)
    assert (len(found.rows), found.ours) == (len(native[case]), 0)
    samples = {row["_ng_foreign"]["trajectory"]: row for row in found.rows}
    for name, sample in native[case].items():
        row = samples[name]
        items = [*row["responses_create_params"]["input"], *row["response"]["output"]]
        assert [text for text in map(read_text, items) if text] == sample["texts"]
        if len(sample["scores"]) == 1:
            assert [row["reward"]] == [*sample["scores"].values()]
        else:
            assert found.lost["scores.match"] + found.lost["scores.agent_threat_bench_scorer"] == len(samples)


def read_text(item: dict[str, Any]) -> str:
    content = item.get("output", item.get("content") or "")
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


_READ = """
import json, sys
from inspect_ai.log import read_eval_log
assert read_eval_log(sys.argv[1], header_only=True).status == "success"
log = read_eval_log(sys.argv[1])
print(json.dumps([[s.id, s.epoch, s.scores["reward"].value, [m.text for m in s.messages]] for s in log.samples]))
"""


def test_inspect_reads_a_log_of_ours(tmp_path: Path, python: Path) -> None:
    rows = [row for row in asyncio.run(build_rows()) if identity_in(row) is not None]
    samples = [write_sample(row).content for row in rows]
    (tmp_path / "log.json").write_bytes(dump_json({**build_header(), "samples": samples}))
    printed = subprocess.check_output([str(python), "-c", _READ, str(tmp_path / "log.json")], text=True)
    found = json.loads(printed)
    assert len(found) >= 100
    for row, sample, (name, epoch, reward, texts) in zip(rows, samples, found, strict=True):
        assert (name, epoch, reward) == (sample["id"], sample["epoch"], row["reward"])
        assert len(texts) == len(sample["messages"])
