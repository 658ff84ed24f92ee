"""`+placement=ray` over several addresses: every node of Ray is a network namespace, and links go down and up again."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.cluster import cluster_split_brain as split_brain
from tests.cluster.cluster_gym import ENVIRONMENT, TASKS, ClusterGym, replicas, run_once
from tests.cluster.cluster_lost_node import LONGEST_S
from tests.cluster.ray_network import RayNetwork, ray_network
from tests.cluster.ray_nodes import why_not
from tests.waiting import wait_until_gone

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def test_servers_are_at_the_addresses_of_their_nodes(tmp_path: Path) -> None:
    count = replicas(ENVIRONMENT, "resources_servers", ENVIRONMENT, 2)
    with ray_network(2) as net, ClusterGym(net, tmp_path, count) as gym:
        assert {each["node"] for each in gym.servers()} == set(net.hosts)
        for server in gym.servers():
            assert server["url"].startswith(f"http://{net.address(server['node'])}:")
        assert gym.collect(4).wait(LONGEST_S) == 0, (tmp_path / "collect.txt").read_text()[-3000:]
        gym.check_books(4 * TASKS)


@pytest.mark.parametrize("cut_s", [3.0, 14.0, 25.0])
def test_no_answer_from_behind_a_link_that_was_down_reaches_a_row(cut_s: float, tmp_path: Path) -> None:
    """The servers of the node go on, and answer as soon as the link is up again."""
    with ray_network(2) as net, _split_gym(net, tmp_path) as gym:
        first, victim = gym.directory(), net.hosts[1]
        behind = [each["pid"] for each in gym.servers() if each["node"] == victim]
        assert behind
        collecting = gym.collect(
            split_brain.ROLLOUTS // TASKS, "+num_samples_in_parallel=48", agent=split_brain.AGENT
        )
        gym.wait_until(lambda: len(gym.rows()) >= random.Random(cut_s).randrange(20, 60))
        net.cut(victim)
        time.sleep(cut_s)
        net.join(victim)
        if cut_s > 20:
            gym.wait_until(lambda: gym.directory()["version"] > first["version"])
        time.sleep(split_brain.LEARNT_WITHIN_S)
        split_brain.check_later_rows(gym, collecting)
        if cut_s > 20:
            for pid in behind:
                wait_until_gone(pid)


def _split_gym(net: RayNetwork, folder: Path) -> ClusterGym:
    """A gym whose second node has replicas of the environment only."""
    blocks = (
        f"{split_brain.AGENT}.responses_api_agents.simple_agent",
        "policy_model.responses_api_models.scripted_model",
    )
    pinned = (f"++{block}.placement.node={net.hosts[0]}" for block in blocks)
    return ClusterGym(net, folder, *pinned, configs=split_brain.write_environment(folder))


def test_a_cluster_without_a_token_that_other_machines_reach_is_refused(tmp_path: Path) -> None:
    with ray_network(1, has_token=False) as net:
        done = run_once(net, tmp_path, *net.keys())
    assert done.returncode == 2, done.stderr
    assert "Ray listens on 10.77.0.1, 10.77.0.2 without token authentication" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()
