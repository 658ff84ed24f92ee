"""Real engines on nodes: each replica of `local_vllm_model` starts its own vLLM beside its node host.

Two node hosts of this machine stand for two machines; `tests/cluster` has machines with addresses of their own.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from tests.cluster.cluster_gym import ClusterGym
from tests.cluster.namespaces import Machines
from tests.vllm.conftest import START_TIMEOUT_S, VENV
from tests.vllm.test_vllm import AGENT, STEPS, TASKS, write_tasks

NODES = ("first", "second")
REPEATS = 2
_CORE = "VLLM::EngineCore"
"""The title of the process that computes; the one that answers HTTP is its parent."""


@dataclass(frozen=True)
class NodesOfThisMachine(Machines):
    """Nodes on loopback."""

    def command(self, name: str, *words: str) -> list[str]:
        return list(words)

    def keys(self) -> list[str]:
        return [
            "+placement=hosts",
            f"+hosts=[{','.join(NODES)}]",
            '+host_command="env NODE={host}"',
            "+advertised_host=127.0.0.1",
            "++head_server.host=127.0.0.1",
        ]


def write_config(folder: Path, model: Path) -> str:
    """Write the model server, and return the paths of the configurations."""
    engine = {
        "entrypoint": "app.py",
        "model": str(model),
        "return_token_id_information": True,
        "command": f"{VENV}/bin/vllm serve {{model}} --host {{host}} --port {{port}} {{flags}}",
        "vllm_serve_kwargs": {
            "dtype": "float32",
            "enforce_eager": True,
            "max_num_seqs": 16,
            "enable_auto_tool_choice": True,
            "tool_call_parser": "hermes",
            "structured_outputs_config": {"disable_any_whitespace": True, "backend": "xgrammar"},
            "enable_scale_out": True,
        },
        "vllm_serve_env_vars": {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "HF_HUB_OFFLINE": "1",
            "VLLM_SERVER_DEV_MODE": "1",
        },
        "placement": {"replicas": 1},
    }
    blocks = {"policy_model": {"responses_api_models": {"local_vllm_model": engine}}}
    (folder / "model.yaml").write_text(yaml.safe_dump(blocks))
    return "model.yaml,resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml"


def cores_on(node: str) -> set[int]:
    """The processes of a node that compute the answers of an engine."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it has just ended, or is another user's
            if process.cmdline()[:1] == [_CORE] and _is_on(node, process):
                found.add(process.pid)
    return found


def _is_on(node: str, process: psutil.Process) -> bool:
    # Not its own environment: its title is written over it.
    return any(parent.environ().get("NODE") == node for parent in process.parents())


def worst_difference(rows: Sequence[dict[str, Any]], model: Path, file: Path) -> float:
    """The largest difference between the log-probabilities of rows and those of a model."""
    segments = [segment for row in rows for segment in build_segments(read_calls(row))]
    kept = [{"token_ids": s.token_ids, "loss_mask": s.loss_mask, "logprobs": s.logprobs} for s in segments]
    file.write_text(json.dumps(kept))
    words = [VENV / "bin" / "python", Path(__file__).parent / "recompute.py", model, file]
    return float(subprocess.check_output(words, text=True))


@pytest.fixture
def own_model(model_folder: Path, tmp_path: Path) -> Path:
    """A copy of the model, whose weights the test may change."""
    return Path(shutil.copytree(model_folder, tmp_path / "model"))


def test_engines_on_nodes_are_added_restarted_and_get_their_weights(own_model: Path, tmp_path: Path) -> None:
    gym = ClusterGym(
        NodesOfThisMachine("", ("",)),
        tmp_path,
        f"++{AGENT}.responses_api_agents.simple_agent.max_steps={STEPS}",
        configs=write_config(tmp_path, own_model),
        script=(),
    )
    gym.ready_s = START_TIMEOUT_S
    with gym:
        assert sorted(len(cores_on(node)) for node in NODES) == [0, 1]
        assert gym.scale("policy_model=2").wait(START_TIMEOUT_S) == 0, (tmp_path / "scale.txt").read_text()
        assert [len(cores_on(node)) for node in NODES] == [1, 1]
        check_rollouts_over_a_killed_engine(gym, tmp_path)
        check_weights(gym, own_model, tmp_path)
        used = {pid for node in NODES for pid in cores_on(node)}
    assert not [pid for pid in used if psutil.pid_exists(pid)]


def check_rollouts_over_a_killed_engine(gym: ClusterGym, folder: Path) -> None:
    """Every attempt has the tokens of all its calls, although the core of an engine was killed meanwhile."""
    params = {"tool_choice": "required", "parallel_tool_calls": False, "max_output_tokens": 400}
    tasks = write_tasks(folder / "tasks.jsonl", **params)
    collecting = gym.collect(REPEATS, "+num_samples_in_parallel=6", agent=AGENT, tasks=tasks)
    gym.wait_until(lambda: gym.count_rows() >= 1)
    (killed,) = cores_on("first")
    os.kill(killed, signal.SIGKILL)
    gym.wait_until(lambda: cores_on("first") - {killed}, START_TIMEOUT_S)
    assert collecting.wait(START_TIMEOUT_S) == 0, (folder / "collect.txt").read_text()[-3000:]
    rows = gym.rows()
    assert len(rows) == REPEATS * TASKS
    for row in rows:
        records = read_calls(row)
        assert len(records) == STEPS
        assert not [record.masked for record in records if record.masked]
        sampled = sum(segment.sampled for segment in build_segments(records))
        assert sampled == row["_ng_usage"]["output_tokens"] > 0
    assert gym.failures() == []


def check_weights(gym: ClusterGym, model: Path, folder: Path) -> None:
    """The engines of both nodes answer with the new weights when the version has changed."""
    script = Path(__file__).parent / "make_model.py"
    subprocess.run([VENV / "bin" / "python", script, model, "1"], check=True)
    gym.update_policy(1)
    tasks = write_tasks(folder / "more_tasks.jsonl", tool_choice="none", max_output_tokens=60)
    assert gym.collect(REPEATS, "+overwrite=true", agent=AGENT, tasks=tasks).wait(START_TIMEOUT_S) == 0
    rows = gym.rows()
    assert len(rows) == REPEATS * TASKS
    assert {record.policy_version for row in rows for record in read_calls(row)} == {1}
    worst = worst_difference(rows, model, folder / "segments.json")
    sys.stdout.write(f"largest difference to the new weights: {worst:.2e}\n")
    assert math.expm1(worst) < 1e-3
