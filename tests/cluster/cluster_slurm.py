"""`examples/slurm/collect.sbatch` on a real Slurm: the job is requeued, reaches its time limit, loses a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from tests.cluster.cluster_gym import BIN, CONFIGS, ENVIRONMENT, SCRIPT, TASKS, replicas
from tests.cluster.namespaces import running_in
from tests.cluster.slurm import CPUS, Slurm, slurm, why_not
from tests.e2e.gym_run import read_lines, rollout_of
from tests.waiting import wait_until

RECIPE = PARENT_DIR / "examples" / "slurm" / "collect.sbatch"
ROLLOUTS = 100
PLACEMENT = f"++{ENVIRONMENT}.resources_servers.{ENVIRONMENT}.placement"
pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@dataclass(frozen=True)
class Job:
    """A submitted recipe, and its folder."""

    slurm: Slurm
    folder: Path
    number: str

    @property
    def state(self) -> str:
        return self.slurm.job(self.number)["JobState"]

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text()

    def rows(self) -> list[dict[str, Any]]:
        return read_lines(self.folder / "out.jsonl")

    def wait_for_rows(self, count: int) -> None:
        wait_until(lambda: len(self.rows()) >= count or self.state in ("FAILED", "COMPLETED"))
        assert count <= len(self.rows()) < ROLLOUTS, self.log

    def check_complete(self) -> None:
        """Wait for the end of the job. Every rollout has one row, and no node has a process of the gym."""
        wait_until(lambda: self.state in ("FAILED", "COMPLETED", "NODE_FAIL"))
        assert self.state == "COMPLETED", self.log
        rollouts = Counter(map(rollout_of, self.rows()))
        assert len(rollouts) == ROLLOUTS
        assert set(rollouts.values()) == {1}
        assert gym_processes(self.slurm) == []


def gym_processes(slurm: Slurm) -> list[str]:
    """The command lines of the gym's processes on all nodes."""
    pids = [str(pid) for name in slurm.net.hosts for pid in running_in(name)]
    words = ["ps", "-o", "args=", "-p", ",".join(pids)]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if "nemo_gym" in line or "ng_" in line]


def submit(slurm: Slurm, folder: Path, *options: str) -> Job:
    """Submit the recipe as a user does. The runtime folder of the login machine does not exist on the nodes."""
    folder.mkdir()
    number = slurm.run(
        "sbatch", "--parsable", f"--output={folder / 'log.txt'}", *options, str(RECIPE),
        f"+config_paths=[{CONFIGS}]", *SCRIPT, "+output_jsonl_fpath=out.jsonl",
        f"+num_repeats={ROLLOUTS // TASKS}", "+num_samples_in_parallel=8",
        "++policy_model.responses_api_models.scripted_model.engine.latency_s=0.2",
        replicas(ENVIRONMENT, "resources_servers", ENVIRONMENT, 2), f"{PLACEMENT}.num_cpus={CPUS}",
        cwd=folder,
        variables={"PATH": f"{BIN}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(folder / "elsewhere")},
    )  # fmt: skip
    return Job(slurm, folder, number.strip())


def test_a_requeued_job_resumes_on_other_nodes(tmp_path: Path) -> None:
    with slurm(3, tmp_path / "slurm") as running:
        job = submit(running, tmp_path / "run", "--nodes=2")
        job.wait_for_rows(20)
        running.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
        running.run("scontrol", "requeue", job.number)
        wait_until(lambda: job.state == "PENDING")
        assert gym_processes(running) == []
        job.check_complete()
        assert running.job(job.number)["NodeList"] == "n[2-3]"
        assert "existed before)" in job.log


def test_a_job_at_its_time_limit_is_started_again(tmp_path: Path) -> None:
    with slurm(2, tmp_path / "slurm") as running:
        job = submit(running, tmp_path / "run", "--nodes=2")
        job.wait_for_rows(20)
        running.run("scancel", "--batch", "--signal=USR1", job.number)  # as Slurm does before the limit
        wait_until(lambda: job.state == "PENDING")
        job.check_complete()
        assert running.job(job.number)["Restarts"] == "1"
        assert "the time limit is near" in job.log
        assert "existed before)" in job.log


@pytest.mark.parametrize("lost", ["n1", "n2"])
def test_a_job_that_loses_a_node_is_started_again(lost: str, tmp_path: Path) -> None:
    with slurm(3, tmp_path / "slurm") as running:
        job = submit(running, tmp_path / "run", "--nodes=2")
        job.wait_for_rows(20)
        running.kill(lost)
        wait_until(lambda: running.job(job.number)["Restarts"] == "1")
        job.check_complete()
        assert "existed before)" in job.log


_TELL = """
import json, os
from nemo_gym.launch.nodes.gpus import usable_gpus
from nemo_gym.processes.cpus import usable_cpus
print(json.dumps([usable_gpus(os.environ), usable_cpus()]))
"""


@pytest.mark.parametrize(("gpus", "cpus"), [(1, 1), (3, CPUS), (0, CPUS)])
def test_a_node_host_has_the_gpus_and_cpus_of_its_job(gpus: int, cpus: int, tmp_path: Path) -> None:
    """The step is started as the recipe starts a node host; jobs beside it have the rest."""
    with slurm(1, tmp_path / "slurm") as running:
        tell = tmp_path / "tell.py"
        tell.write_text(_TELL)
        step = f"srun --overlap --nodes=1 --ntasks=1 --nodelist=n1 {sys.executable} {tell}"
        asked = (f"--gpus-per-node={gpus}",) if gpus else ()
        log = tmp_path / "log.txt"
        running.run(
            "sbatch", "--wait", *asked, f"--cpus-per-task={cpus}", f"--output={log}", f"--wrap={step}"
        )
        names, found = json.loads(log.read_text())
        assert (len(set(names)), found) == (gpus, cpus)


def test_with_no_kill_a_lost_node_costs_its_replicas_and_not_the_job(tmp_path: Path) -> None:
    with slurm(3, tmp_path / "slurm") as running:
        job = submit(running, tmp_path / "run", "--nodes=3", "--no-kill")
        job.wait_for_rows(20)
        running.kill("n3")
        job.check_complete()
        assert running.job(job.number)["Restarts"] == "0"
        assert "the node n3 was lost" in job.log
