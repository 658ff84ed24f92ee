"""`+placement=ray` on a real Ray: its nodes are raylets of this machine, and it requires a token.

NEMO_GYM_TEST_SEEDS is the number of seeds with a lost raylet, NEMO_GYM_TEST_ROLLOUTS that of rollouts of each.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from docs.snippets import DOCS, snippets_of
from tests.cluster import cluster_split_brain as split_brain
from tests.cluster.cluster_contract import SUITES, check_suite, collected
from tests.cluster.cluster_gym import BIN, CONFIGS, ENVIRONMENT, TASKS, ClusterGym, run_once
from tests.cluster.cluster_lost_node import LONGEST_S, ROLLOUTS, SEEDS, SERVERS
from tests.cluster.ray_nodes import CPUS, GPUS, RayMachines, actor_of, ray_machines, why_not
from tests.e2e.gym_run import read_lines
from tests.waiting import wait_until_gone

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def net() -> Iterator[RayMachines]:
    """A cluster of three nodes. A test that kills one starts it again."""
    with ray_machines(3) as cluster:
        yield cluster


@pytest.mark.parametrize("suite", SUITES)
def test_the_suites_of_the_contract_pass_on_ray(suite: str, net: RayMachines) -> None:
    check_suite(net, suite, "ray")


def test_rows_are_those_of_one_machine(net: RayMachines, tmp_path: Path) -> None:
    rows = collected(net, tmp_path / "ray", *net.keys())
    assert len(rows) == 20
    assert collected(net, tmp_path / "process", "+placement=process") == rows


def test_the_block_of_the_documentation_collects(net: RayMachines, tmp_path: Path) -> None:
    [block] = [
        snippet.text
        for snippet in snippets_of((DOCS / "cluster.md").read_text(encoding="utf-8"))
        if snippet.mark == "run by" and Path(snippet.value).name == Path(__file__).name
    ]
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "math.yaml").write_text(yaml.safe_dump({"config_paths": CONFIGS.split(",")}))
    variables = (f"RAY_ADDRESS={net.address_of_head}", f"PATH={BIN}:{os.environ['PATH']}")
    words = net.command(net.names[0], "env", *variables, "bash", "-eu", "-c", block)
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    assert len(read_lines(tmp_path / "out.jsonl")) == TASKS


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_lost_raylet_loses_no_rollout(seed: int, net: RayMachines, tmp_path: Path) -> None:
    chance = random.Random(seed)
    with ClusterGym(net, tmp_path, *SERVERS) as gym:
        collecting = gym.collect(ROLLOUTS // TASKS, "+num_samples_in_parallel=64", "+rollout_timeout_s=120")
        victim, after = chance.choice(net.hosts), chance.randrange(1, ROLLOUTS * 3 // 4)
        gym.wait_until(lambda: gym.count_rows() >= after, within_s=LONGEST_S)
        assert collecting.poll() is None, "the raylet is lost while rollouts are in flight"
        lost = [each["pid"] for each in gym.servers() if each["node"] == victim]
        net.kill(victim)
        code = collecting.wait(LONGEST_S)
        assert code in (0, 3), (tmp_path / "collect.txt").read_text()[-3000:]
        outcome = gym.check_books(ROLLOUTS)
        sys.stdout.write(f"seed {seed}: the raylet of {victim} was killed after {after} rows: {outcome}\n")
        assert lost
        for pid in lost:
            wait_until_gone(pid)
        bring_back(victim, net, gym)


@pytest.mark.parametrize("actor", ["ends", "hangs"])
def test_no_answer_of_servers_that_outlive_their_raylet_reaches_a_row(
    actor: str, net: RayMachines, tmp_path: Path
) -> None:
    with ClusterGym(net, tmp_path, configs=split_brain.write_environment(tmp_path)) as gym:
        version = gym.directory()["version"]
        victim = gym.node_of_only("telling")
        lost = [each["pid"] for each in gym.servers() if each["node"] == victim]
        collecting = gym.collect(
            split_brain.ROLLOUTS // TASKS, "+num_samples_in_parallel=48", agent=split_brain.AGENT
        )
        gym.wait_until(lambda: len(gym.rows()) >= random.Random(actor).randrange(20, 60))
        parent = actor_of(lost[0])
        if actor == "hangs":  # neither the actor nor, for now, its node host and servers end with the raylet
            parent.send_signal(signal.SIGSTOP)
        net.kill(victim)
        assert actor == "ends" or all(psutil.pid_exists(pid) for pid in lost)
        gym.wait_until(lambda: gym.directory()["version"] > version)
        time.sleep(split_brain.LEARNT_WITHIN_S)
        split_brain.check_later_rows(gym, collecting)
        for pid in lost:
            wait_until_gone(pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            parent.kill()
        bring_back(victim, net, gym)


def test_the_end_of_the_launcher_ends_every_node(net: RayMachines, tmp_path: Path) -> None:
    with ClusterGym(net, tmp_path, *SERVERS) as gym:
        pids = [each["pid"] for each in gym.servers()]
        hosts = {actor_of(pid).pid for pid in pids}
        assert len(hosts) == len(net.hosts)
        assert gym.process is not None
        psutil.Process(gym.process.pid).kill()
        for pid in (*pids, *hosts):
            wait_until_gone(pid)


def bring_back(victim: str, net: RayMachines, gym: ClusterGym) -> None:
    """Start the killed raylet again, and wait until the gym uses its node: it asks Ray every minute."""
    net.add(victim)
    gym.wait_until(lambda: all(node["state"] == "up" for node in gym.nodes()), within_s=LONGEST_S)


def test_needs_that_the_cluster_never_meets_are_refused_with_the_numbers(
    net: RayMachines, tmp_path: Path
) -> None:
    done = run_once(
        net, tmp_path, *net.keys(), f"++{ENVIRONMENT}.resources_servers.{ENVIRONMENT}.placement.num_cpus=100"
    )
    assert done.returncode == 2, done.stderr
    assert f"1 replicas of 100 num_cpus do not fit: n1 has {CPUS} num_cpus" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_a_cluster_that_is_not_there_or_has_another_token_is_refused(
    net: RayMachines, tmp_path: Path
) -> None:
    done = run_once(net, tmp_path, "+placement=ray", f"+ray_address={net.address(net.names[0])}:9")
    assert done.returncode == 2, done.stderr
    assert "the Ray cluster at 10.77.0.1:9 cannot be used" in done.stderr
    token = net.folder / "token"
    right = token.read_text()
    token.write_text("0" * len(right))
    try:
        done = run_once(net, tmp_path, *net.keys())
    finally:
        token.write_text(right)
    assert done.returncode == 2, done.stderr
    assert f"the Ray cluster at {net.address_of_head} cannot be used" in done.stderr


@pytest.mark.parametrize(
    ("is_on_loopback", "code", "message"),
    [
        (True, 0, "all 4 servers are ready"),
        (False, 2, "Ray listens on 10.77.0.1 without token authentication"),
    ],
)
def test_a_cluster_without_a_token_is_used_on_loopback_only(
    is_on_loopback: bool, code: int, message: str, tmp_path: Path
) -> None:
    with ray_machines(1, is_on_loopback=is_on_loopback, has_token=False) as net:
        done = run_once(net, tmp_path, *net.keys())
    assert done.returncode == code, done.stderr
    assert message in done.stderr


OTHER_JOB = """
import json, sys
import ray

ray.init(address=sys.argv[1], log_to_driver=False)
names = {node["NodeID"]: node["NodeName"] for node in ray.nodes()}

@ray.remote(num_gpus=1, scheduling_strategy="SPREAD")
class Holder:
    def held(self):
        return ray.get_runtime_context().get_node_id(), *ray.get_gpu_ids()

holders = [Holder.options(num_cpus=int(sys.argv[2])).remote() for _ in range(int(sys.argv[3]))]
held = ray.get([holder.held.remote() for holder in holders])
print(json.dumps([(names[node], str(gpu)) for node, gpu in held]), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def other_job(net: RayMachines, cpus: int) -> Iterator[set[tuple[str, str]]]:
    """Another job, which has a GPU and `cpus` of every node. Gives its pairs of node and GPU."""
    words = [sys.executable, "-c", OTHER_JOB, net.address_of_head, str(cpus), str(len(net.hosts))]
    with subprocess.Popen(
        net.command(net.names[0], *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        held = {(node, gpu) for node, gpu in json.loads(job.stdout.readline())}
        assert {node for node, _ in held} == set(net.hosts)
        yield held
        job.communicate()


def test_what_other_jobs_use_is_waited_for_and_their_gpus_are_left_alone(
    net: RayMachines, tmp_path: Path
) -> None:
    engine = "++telling.resources_servers.telling.placement"
    gym = ClusterGym(
        net,
        tmp_path,
        f"{engine}.num_gpus=1",
        f"{engine}.num_cpus=1",
        configs=split_brain.write_environment(tmp_path),
    )
    with other_job(net, 0) as held, contextlib.ExitStack() as stack:
        with other_job(net, CPUS):
            gym.begin()
            stack.push(gym)
            gym.wait_until(lambda: "waits for a node with 1 num_cpus, 1 num_gpus free" in gym.log)
            assert not gym.servers()
        gym.wait_until_ready()
        assert gym.collect(10, agent=split_brain.AGENT).wait(300) == 0
        nodes = {each["replica"]: each["node"] for each in gym.servers() if each["name"] == "telling"}
        used = {(nodes[row["replica"]], row["gpus"]) for row in gym.rows()}
    assert {node for node, _ in used} == set(net.hosts)
    assert {gpu for _, gpu in used | held} == {str(number) for number in range(GPUS)}
    assert not used & held


def test_added_replicas_are_reserved_and_removed_ones_leave_their_room(
    net: RayMachines, tmp_path: Path
) -> None:
    """A replica has a whole node, so a second one there would wait for ever if the first had kept its reservation."""
    placement = f"++{ENVIRONMENT}.resources_servers.{ENVIRONMENT}.placement"
    with ClusterGym(net, tmp_path, f"{placement}.num_cpus={CPUS}") as gym:
        for count in (len(net.hosts), 1, len(net.hosts)):
            done = gym.scale(f"{ENVIRONMENT}={count}").wait(LONGEST_S)
            assert done == 0, (tmp_path / "scale.txt").read_text()
            replicas = [each["node"] for each in gym.servers() if each["name"] == ENVIRONMENT]
            assert len(replicas) == len(set(replicas)) == count
        assert gym.scale(f"{ENVIRONMENT}={len(net.hosts) + 1}").wait(LONGEST_S) == 2
        assert f"of {CPUS} num_cpus do not fit" in (tmp_path / "scale.txt").read_text()
