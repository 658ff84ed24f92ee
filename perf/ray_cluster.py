"""A private Ray cluster of this machine: `python -m perf.ray_cluster COUNT FOLDER`.

It prints its address when its nodes are up, and ends with its standard input. The nodes share the machine's cores and
its address. The cluster requires a token, because Ray listens on more than loopback wherever it can.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from nemo_gym.failures import ConfigError
from perf.measure import family_of

CPUS = 2
"""The CPUs that every node says it has."""
NODE_HOST = "nemo_gym.launch.nodes.node_host"
_STORE_BYTES = 80 << 20
_END_S = 20.0
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A running cluster."""

    address: str
    pid: int

    def processes(self) -> dict[str, list[psutil.Process]]:
        """The processes of the gym on its nodes, and those of Ray."""
        gym = self.node_hosts()
        return {"gym": gym, "ray": [each for each in family_of(self.pid) if each not in gym]}

    def node_hosts(self) -> list[psutil.Process]:
        """The processes of the gym on its nodes."""
        return [
            process
            for host in family_of(self.pid)
            if NODE_HOST in host.cmdline()
            for process in family_of(host.pid)
        ]


@contextmanager
def ray_cluster(nodes: int) -> Iterator[RayCluster]:
    """A cluster until the end of the block. Raises `ConfigError` without Ray."""
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(
            "this interpreter has no Ray",
            code="no_ray",
            remedy="bash tests/cluster/install.sh; use .venvs/ray.",
        )
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        token = Path(folder) / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(16))
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}  # the gym inherits them
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(nodes), folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise RuntimeError(f"Ray ended with exit code {process.wait()} before its nodes were up")
            yield RayCluster(address, process.pid)
        finally:
            family = family_of(process.pid)
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
            for each in family:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            process.wait()
            process.stdout.close()


def main() -> None:
    from ray import cluster_utils

    count, folder = int(sys.argv[1]), sys.argv[2]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints there
    shared = {"object_store_memory": _STORE_BYTES}
    head = {**shared, "num_cpus": 0, "node_name": "head", "temp_dir": folder, "include_dashboard": False}
    cluster: Any = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    for number in range(count):
        cluster.add_node(wait=False, num_cpus=CPUS, node_name=f"node{number + 1}", **shared)
    cluster.wait_for_nodes(timeout=300)
    answers.write(f"{cluster.address}\n")
    answers.close()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
