"""The launcher's machine dies: no process survives on any node, and the run goes on from its journal."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.cluster_gym import TASKS, ClusterGym, replicas
from tests.cluster.namespaces import machines, running_in, why_not
from tests.e2e.gym_run import rollout_of
from tests.waiting import wait_until

ROLLOUTS = 100
SERVERS = (
    replicas("example_session_state_mgmt", "resources_servers", "example_session_state_mgmt", 2),
    "++policy_model.responses_api_models.scripted_model.engine.latency_s=0.2",
)
pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.mark.parametrize("fault", ["killed", "cut"])
def test_the_end_of_the_launcher_ends_every_node(fault: str, tmp_path: Path) -> None:
    with machines(2) as net:
        gym = ClusterGym(net, tmp_path, *SERVERS)
        with gym:
            collecting = gym.collect(ROLLOUTS // TASKS, "+num_samples_in_parallel=16")
            gym.wait_until(lambda: len(gym.rows()) >= 20)
            if fault == "cut":
                net.cut(net.names[0])
            else:
                for pid in running_in(net.names[0]):
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not any(running_in(name) for name in net.hosts))
            collecting.kill()
            collecting.wait()
        if fault == "cut":
            net.join(net.names[0])
        for path in (tmp_path / "runtime").rglob("*.json"):
            path.unlink()  # the record of the killed launcher
        with ClusterGym(net, tmp_path, *SERVERS) as again:
            assert again.collect(ROLLOUTS // TASKS, "+resume_from_cache=true").wait(300) == 0
            rollouts = Counter(map(rollout_of, again.rows()))
        assert len(rollouts) == ROLLOUTS
        assert set(rollouts.values()) == {1}
