"""A Ray cluster in a network namespace: real raylets that share an address. It requires a token of its own.

`python -m tests.cluster.ray_nodes FOLDER ADDRESS COUNT` starts it, and does what lines of its input say: `kill NAME`
kills the raylet of a node and nothing else, `add NAME` starts a node.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psutil

from tests.cluster.namespaces import Machines, machines, running_in
from tests.cluster.namespaces import why_not as why_no_namespaces

CPUS = 4
GPUS = 2
LICENCES = 3.0
"""What every node has; its GPUs are numbers without a device."""


def why_not() -> str | None:
    """The reason why no Ray cluster can be started here; None if it can."""
    if importlib.util.find_spec("ray") is None:
        return "Ray is not installed (make test-cluster)"
    return why_no_namespaces()


@dataclass(frozen=True)
class RayMachines(Machines):
    """The namespace of a cluster, which is also that of the launcher."""

    address_of_head: str
    folder: Path
    process: subprocess.Popen[str]
    nodes: tuple[str, ...]
    has_token: bool

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.nodes

    def command(self, name: str, *words: str) -> list[str]:
        variables = [
            f"{name}={value}" for name, value in token_variables(self.folder, self.has_token).items()
        ]
        return super().command(name, "env", *variables, *words)

    def keys(self) -> list[str]:
        return ["+placement=ray", f"+ray_address={self.address_of_head}"]

    def kill(self, node: str) -> None:
        """Kill the raylet of a node. What runs on the node goes on, until it notices."""
        self._tell(f"kill {node}")

    def add(self, node: str) -> None:
        """Start a node."""
        self._tell(f"add {node}")

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer == f"{line}\n", answer


def token_variables(folder: Path, has_token: bool) -> dict[str, str]:
    """The variables for Ray and its users; the token is in a file of `folder`."""
    if not has_token:
        return {"RAY_AUTH_MODE": "disabled"}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}


@contextlib.contextmanager
def ray_machines(
    count: int, *, is_on_loopback: bool = False, has_token: bool = True
) -> Iterator[RayMachines]:
    """A cluster of a head without CPUs and the nodes n1, n2, …, until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # the paths of Ray's sockets must be short
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(16))
    with machines(0) as net:
        address = "127.0.0.1" if is_on_loopback else net.address(net.names[0])
        words = [sys.executable, "-m", __name__, str(folder), address, str(count)]
        with (folder / "cluster.txt").open("wb") as log:
            process = subprocess.Popen(
                net.command(net.names[0], *words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **token_variables(folder, has_token)},
            )
        try:
            assert process.stdout is not None
            head = process.stdout.readline().strip()
            assert head, (folder / "cluster.txt").read_text()[-3000:]
            nodes = tuple(f"n{number}" for number in range(1, count + 1))
            yield RayMachines(net.prefix, net.names, head, folder, process, nodes, has_token)
        finally:
            for pid in running_in(net.names[0]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            process.communicate()
            shutil.rmtree(folder)


class _Nodes:
    """The processes of the cluster."""

    NODE: ClassVar[dict[str, Any]] = {
        "num_cpus": CPUS,
        "num_gpus": GPUS,
        "resources": {"licence": LICENCES},
        "object_store_memory": 80 << 20,
    }

    def __init__(self, folder: str, address: str) -> None:
        from ray.cluster_utils import Cluster

        self._address = address
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "node_ip_address": address,
                "node_name": "head",
                "temp_dir": folder,
                "include_dashboard": False,
                "object_store_memory": 80 << 20,
                "_system_config": {"health_check_period_ms": 1000, "health_check_failure_threshold": 3},
            },
        )
        self._nodes: dict[str, Any] = {}

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, name: str) -> None:
        arguments = {"node_ip_address": self._address, "node_name": name, **self.NODE}
        self._nodes[name] = self._cluster.add_node(wait=False, **arguments)

    def wait(self) -> None:
        self._cluster.wait_for_nodes(timeout=300)

    def kill(self, name: str) -> None:
        """Kill the raylet. The rest of the node ends by itself, as after the crash of a real one."""
        [raylet] = self._nodes[name].all_processes["raylet"]
        raylet.process.kill()
        raylet.process.wait()


def actor_of(pid: int) -> psutil.Process:
    """The process of Ray that is the parent of the node host of a server."""
    for process in psutil.Process(pid).parents():
        if "nemo_gym.launch.nodes.node_host" in process.cmdline():
            actor = process.parent()
            assert actor is not None
            return actor
    raise LookupError(pid)


def main() -> None:
    folder, address, count = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    nodes = _Nodes(folder, address)
    for number in range(int(count)):
        nodes.add(f"n{number + 1}")
    nodes.wait()
    answers.write(f"{nodes.address}\n")
    answers.flush()
    for line in sys.stdin:
        verb, name = line.split()
        {"kill": nodes.kill, "add": nodes.add}[verb](name)
        answers.write(line)
        answers.flush()


if __name__ == "__main__":
    main()
