"""Rollouts per second on 1, 2 and 4 nodes of a private Ray cluster, which is up before the gym starts.

The nodes are raylets of this machine, which share its cores. The figures are those of `nodes`, and three of the start:
`ready_s` from the start of `ng_run` until its servers answer; `ray_s` from the start of a small job until it has
imported Ray, has connected, and has an answer of an actor on every node; `ready_beyond_ray_s`, the difference. Starts
are medians, because they vary much. `ray_cpu_ms` is the CPU of Ray's own processes for each rollout.

It needs an interpreter with Ray: `bash tests/cluster/install.sh`, then `.venvs/ray/bin/python -m perf ray_nodes`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from perf import nodes
from perf.measure import Figures, tell
from perf.nodes import EPISODE, ONE_MACHINE, compare, measured, name_of, replicas
from perf.ray_cluster import RayCluster, ray_cluster
from perf.rollouts import engine_of, overrides
from perf.running_gym import running_gym

SETTLED_S = 5.0
"""Seconds after which a new cluster, or one whose job has ended, is quiet."""
_JOB = """
import sys
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

class Actor:
    def answer(self):
        return True

ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
workers = [node["NodeID"] for node in ray.nodes() if "CPU" in node["Resources"]]
places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in workers]
actors = [ray.remote(Actor).options(num_cpus=0, scheduling_strategy=place).remote() for place in places]
assert len(actors) == int(sys.argv[2])
ray.get([actor.answer.remote() for actor in actors])
print("ready", flush=True)
sys.stdin.read()
"""


class BenchKeys(nodes.BenchKeys):
    pass


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return figures by number of nodes, each the median of `runs` windows or starts."""
    figures: dict[str, Figures] = {}
    for number in keys.nodes:
        with ray_cluster(number) as cluster:
            time.sleep(SETTLED_S)
            starts = _starts(runs, number, cluster)
            placed = _placed(number, cluster)
            cell = measured(runs, keys, number, *placed, others=cluster.processes)
        figures[name_of(number)] = {**cell, **starts}
    figures = {ONE_MACHINE: measured(runs, keys, 1), **figures}
    compare(figures, keys.nodes)
    return figures


def _placed(number: int, cluster: RayCluster) -> list[str]:
    return ["+placement=ray", f"+ray_address={cluster.address}", *replicas(number)]


def _starts(runs: int, number: int, cluster: RayCluster) -> Figures:
    tell(f"{name_of(number)}, {runs} starts")
    own, ready = [], []
    with engine_of(EPISODE, 0.0) as engine:
        for _ in range(runs):
            own.append(_job_s(number, cluster))
            time.sleep(SETTLED_S)
            began = time.monotonic()
            with running_gym([*overrides(EPISODE, engine), *_placed(number, cluster)]):
                ready.append(time.monotonic() - began)
            time.sleep(SETTLED_S)
    ready_s, ray_s = statistics.median(ready), statistics.median(own)
    return {"ready_s": ready_s, "ray_s": ray_s, "ready_beyond_ray_s": ready_s - ray_s}


def _job_s(number: int, cluster: RayCluster) -> float:
    """Return the seconds from the start of a job until its actors have answered."""
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", _JOB, cluster.address, str(number)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as job:  # fmt: skip
        assert job.stdout is not None
        if job.stdout.readline() != b"ready\n":
            raise RuntimeError(f"a job of Ray ended with exit code {job.wait()}")
        ready_s = time.monotonic() - began
        job.communicate()
    return ready_s
