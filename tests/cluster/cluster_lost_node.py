"""A machine is lost at a random moment of a collection: every rollout still has one row or one final failure.

NEMO_GYM_TEST_SEEDS is the number of seeds, NEMO_GYM_TEST_ROLLOUTS that of rollouts of each. `make test-cluster` runs 20
seeds of 2,000, `make slice-cluster` one of 100.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from nemo_gym.rows.keys import REPLAY_KEY
from tests.cluster.cluster_gym import TASKS, ClusterGym, replicas
from tests.cluster.namespaces import machines, running_in, why_not

SEEDS = int(os.environ.get("NEMO_GYM_TEST_SEEDS", "1"))
ROLLOUTS = int(os.environ.get("NEMO_GYM_TEST_ROLLOUTS", "100"))
LONGEST_S = 900.0
"""Seconds for all rollouts, on a machine that is busy with other work."""
CUT_OFF_EVERY = 4
"""Of so many seeds one has a machine that is cut off, which takes the seconds of its lease; the others have one that is
killed."""
SERVERS = (
    replicas("example_session_state_mgmt", "resources_servers", "example_session_state_mgmt", 3),
    replicas("example_session_state_mgmt_simple_agent", "responses_api_agents", "simple_agent", 2),
    replicas("policy_model", "responses_api_models", "scripted_model", 2),
    "++policy_model.responses_api_models.scripted_model.engine.latency_s=0.1",
)
pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_lost_machine_loses_no_rollout(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    fault = "cut off" if seed % CUT_OFF_EVERY == CUT_OFF_EVERY - 1 else "killed"
    with machines(3) as net, ClusterGym(net, tmp_path, *SERVERS) as gym:
        collecting = gym.collect(ROLLOUTS // TASKS, "+num_samples_in_parallel=64", "+rollout_timeout_s=120")
        victim, after = chance.choice(net.hosts), chance.randrange(1, ROLLOUTS * 3 // 4)
        gym.wait_until(lambda: gym.count_rows() >= after, within_s=LONGEST_S)
        assert collecting.poll() is None, "the machine is lost while rollouts are in flight"
        before = set(running_in(victim))
        assert before
        if fault == "killed":
            for pid in before:
                with contextlib.suppress(ProcessLookupError):  # some end with those before them
                    os.kill(pid, signal.SIGKILL)
        else:
            net.cut(victim)
        code = collecting.wait(LONGEST_S)
        assert code in (0, 3), (tmp_path / "collect.txt").read_text()[-3000:]
        outcome = gym.check_books(ROLLOUTS)
        sys.stdout.write(f"seed {seed}: {victim} was {fault} after {after} rows: {outcome}\n")
        gym.wait_until(
            lambda: not before & set(running_in(victim))
        )  # those of a cut machine end by themselves


@pytest.mark.parametrize("seed", range(SEEDS))
def test_attempts_of_a_lost_machine_go_on_from_a_shared_disk(seed: int, tmp_path: Path) -> None:
    """Its model server had written their records, which another one reads."""
    chance = random.Random(seed)
    keys = ("+durability=node", "+num_samples_in_parallel=32", "+rollout_timeout_s=120", "+max_attempts=5")
    with machines(3) as net, ClusterGym(net, tmp_path, *SERVERS) as gym:
        collecting = gym.collect(ROLLOUTS // TASKS, *keys)
        after = chance.randrange(1, ROLLOUTS * 3 // 4)
        gym.wait_until(lambda: gym.count_rows() >= after, within_s=LONGEST_S)
        assert collecting.poll() is None, "the machine is lost while rollouts are in flight"
        victim = chance.choice([host for host in net.hosts if running_in(host)])
        for pid in running_in(victim):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        code = collecting.wait(LONGEST_S)
        printed = (tmp_path / "collect.txt").read_text()
        assert code == 0, printed[-3000:]
        outcome = gym.check_books(ROLLOUTS)
        replayed = [row[REPLAY_KEY] for row in gym.rows() if REPLAY_KEY in row]
        sys.stdout.write(
            f"seed {seed}: {victim} was killed after {after} rows: {outcome}, {len(replayed)} went on\n"
        )
        assert replayed
        assert f"{len(replayed):,} attempt" in printed
        assert all(about["calls_replayed"] for about in replayed)
