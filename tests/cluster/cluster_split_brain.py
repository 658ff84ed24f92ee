"""A machine is cut off while its servers work, and joins the network again: its late answers reach no row.

Every row names the generation of the replica that verified it. A row that is written after a generation was fenced, and
after every caller has learnt it, must be of a later one.
"""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.cluster.cluster_gym import TASKS, ClusterGym
from tests.cluster.namespaces import machines, why_not

TELLING = """
import asyncio, os
from fastapi import Request
from nemo_gym.config.bootstrap import current
from resources_servers.example_session_state_mgmt.app import (
    CounterVerifyRequest, CounterVerifyResponse, ExampleSessionStateMgmtResourcesServer
)

class Answer(CounterVerifyResponse):
    replica: int
    generation: int
    gpus: str

class Telling(ExampleSessionStateMgmtResourcesServer):
    async def verify(self, request: Request, body: CounterVerifyRequest) -> Answer:
        await asyncio.sleep(2.0)  # so that many answers are on their way when the machine is cut off
        answer, given = await super().verify(request, body), current()
        return Answer(**dict(answer), replica=given.replica, generation=given.generation,
                      gpus=os.environ.get("CUDA_VISIBLE_DEVICES", ""))

if __name__ == "__main__":
    Telling.run_webserver()
"""
AGENT = "telling_agent"
ROLLOUTS = 400
LEARNT_WITHIN_S = 3.0
"""More than the time in which every caller asks for the directory."""

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def write_environment(folder: Path) -> str:
    """Write the environment and its agent, and return the configuration's path."""
    server = folder / "resources_servers" / "telling"
    server.mkdir(parents=True)
    (server / "app.py").write_text(TELLING)
    agent = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": "telling"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "max_steps": 20,
    }
    blocks = {
        "telling": {"resources_servers": {"telling": {"entrypoint": "app.py", "placement": {"replicas": 3}}}},
        AGENT: {"responses_api_agents": {"simple_agent": agent}},
    }
    (folder / "gym.yaml").write_text(yaml.safe_dump(blocks))
    return "gym.yaml,responses_api_models/scripted_model/configs/scripted_model.yaml"


@pytest.mark.parametrize("cut_s", [3.0, 14.0, 25.0])
def test_no_answer_of_a_fenced_generation_reaches_a_row(cut_s: float, tmp_path: Path) -> None:
    with machines(3) as net, ClusterGym(net, tmp_path, configs=write_environment(tmp_path)) as gym:
        first = gym.directory()
        victim = gym.node_of_only("telling")
        collecting = gym.collect(ROLLOUTS // TASKS, "+num_samples_in_parallel=48", agent=AGENT)
        gym.wait_until(lambda: len(gym.rows()) >= random.Random(cut_s).randrange(20, 60))
        net.cut(victim)
        time.sleep(cut_s)
        net.join(victim)
        if cut_s > 20:
            gym.wait_until(lambda: gym.directory()["version"] > first["version"])
        time.sleep(LEARNT_WITHIN_S)
        check_later_rows(gym, collecting)


def check_later_rows(gym: ClusterGym, collecting: subprocess.Popen[bytes]) -> None:
    """Every row from now on is of the current generations."""
    before = len(gym.rows())
    current = [generation for _, generation in gym.directory()["servers"]["telling"]]
    assert collecting.wait(300) == 0, (gym.folder / "collect.txt").read_text()[-3000:]
    later = gym.rows()[before:]
    assert later
    assert all(row["generation"] >= current[row["replica"]] for row in later)
    assert len(gym.rows()) == ROLLOUTS
