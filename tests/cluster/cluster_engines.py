"""Engines on machines: each replica of `local_vllm_model` starts its own, here the engine stub, on its node.

Every engine writes its GPUs into a file, and says in its figures how often its weights were reloaded.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.cluster_gym import ENVIRONMENT, TASKS, ClusterGym
from tests.cluster.namespaces import Machines, machines, running_in, why_not

ENGINE = "nemo_gym.cli.mock_engine"
GPUS = 2
"""GPUs of each engine. Each machine declares as many, so that it has room for one engine."""
SCRIPT_FILE = Path(__file__).resolve().parents[2] / "configs" / "demo" / "counter_script.yaml"
_ASK = """
import sys, urllib.request
print(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/stats", timeout=30).read().decode())
"""

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def write_model(folder: Path) -> str:
    """Write the model server, and return the paths of the configurations."""
    stub = (
        f"{sys.executable} -m {ENGINE} +model={{model}} +port={{port}} +policy=script +script={SCRIPT_FILE}"
    )
    model = {
        "entrypoint": "app.py",
        "model": "mock",
        "command": f"bash -c 'echo $CUDA_VISIBLE_DEVICES >> {folder}/gpus.txt; exec {stub} +latency_s=0.5'",
        "vllm_serve_env_vars": {"VLLM_SERVER_DEV_MODE": "1"},
        "placement": {"replicas": 2, "num_gpus": GPUS},
    }
    blocks = {"policy_model": {"responses_api_models": {"local_vllm_model": model}}}
    (folder / "model.yaml").write_text(yaml.safe_dump(blocks))
    return f"model.yaml,resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml"


def engines_of(name: str) -> dict[int, int]:
    """The engines that run on a machine: pid → port."""
    found = {}
    for pid in running_in(name):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:  # it has just ended
            continue
        ports = [word.removeprefix("+port=") for word in words if word.startswith("+port=")]
        if ENGINE in words and ports and words[0] == sys.executable:
            found[pid] = int(ports[0])
    return found


def reloads(net: Machines) -> list[int]:
    """How often the weights of each engine were reloaded."""
    counts = []
    for name in net.hosts:
        for port in engines_of(name).values():
            words = net.command(name, sys.executable, "-c", _ASK, str(port))
            stats = json.loads(subprocess.run(words, check=True, capture_output=True, timeout=60).stdout)
            counts.append(stats["requests"].get("/collective_rpc", 0))
    return counts


def versions_in(rows: list[dict[str, Any]]) -> Counter[Any]:
    """The policy versions of the last call of each row."""
    return Counter(row["response"]["output"][-1].get("_ng_tokens", {}).get("policy_version") for row in rows)


def test_engines_run_one_a_node_are_restarted_and_get_their_weights_before_the_version(
    tmp_path: Path,
) -> None:
    with machines(3) as net:
        gym = ClusterGym(net, tmp_path, configs=write_model(tmp_path), script=())
        hosts = ",".join(f"{{host: {name}, num_gpus: {GPUS}}}" for name in net.hosts)
        gym.placement = [key for key in gym.placement if not key.startswith("+hosts=")]
        gym.placement.append(f"+hosts=[{hosts}]")
        with gym:
            assert Counter(len(engines_of(name)) for name in net.hosts) == {1: 2, 0: 1}
            gym.update_policy(1)
            assert reloads(net) == [1, 1]
            collecting = gym.collect(30, "+num_samples_in_parallel=30")
            gym.wait_until(lambda: gym.count_rows() >= 20)
            victim = next(name for name in net.hosts if engines_of(name))
            (killed,) = engines_of(victim)
            os.kill(killed, signal.SIGKILL)
            gym.wait_until(lambda: set(engines_of(victim)) - {killed})
            assert gym.scale("policy_model=3").wait(120) == 0
            assert [len(engines_of(name)) for name in net.hosts] == [1, 1, 1]
            refused = gym.scale("policy_model=4")
            assert refused.wait(60) == 2
            assert f"of {GPUS} num_gpus do not fit" in (tmp_path / "scale.txt").read_text()
            gym.wait_until(lambda: sum(reloads(net)) >= 2)  # the added one has the version of the others
            assert collecting.wait(300) == 0, (tmp_path / "collect.txt").read_text()[-3000:]
            assert set(versions_in(gym.rows())) == {1}
            gym.update_policy(2)
            assert min(reloads(net)) >= 1
            again = gym.collect(20, "+overwrite=true")
            gym.wait_until(lambda: again.poll() is not None)
            assert set(versions_in(gym.rows())) == {2}
            assert len(gym.rows()) == 20 * TASKS
    assert set((tmp_path / "gpus.txt").read_text().split()) == {"0,1"}
