"""A Ray cluster over several addresses: `ray start` in every network namespace, as on machines of their own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.cluster.cluster_gym import BIN
from tests.cluster.namespaces import Machines, machines, running_in
from tests.cluster.ray_nodes import CPUS, token_variables

PORT = 6379
STARTED_WITHIN_S = 120.0
_HEALTH = {"health_check_period_ms": 1000, "health_check_failure_threshold": 3}
"""Ray notes that a node is lost as soon as in the tests of simulated nodes."""


@dataclass(frozen=True)
class RayNetwork(Machines):
    """A head without CPUs beside the launcher, and a node on every other machine, with the machine's name."""

    folder: Path
    has_token: bool

    def command(self, name: str, *words: str) -> list[str]:
        variables = [
            f"{name}={value}" for name, value in token_variables(self.folder, self.has_token).items()
        ]
        return super().command(name, "env", *variables, *words)

    def keys(self) -> list[str]:
        return ["+placement=ray", f"+ray_address={self.address(self.names[0])}:{PORT}"]

    def start(self, name: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the node of a machine, in a folder that no other node has."""
        address = self.address(name)
        words = [
            *(str(BIN / "ray"), "start", "--block", f"--node-ip-address={address}", f"--node-name={name}"),
            *(f"--temp-dir={self.folder / address}", f"--object-store-memory={80 << 20}"),
            "--disable-usage-stats",
        ]
        if name == self.names[0]:
            words += ["--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false"]
            words += [f"--system-config={json.dumps(_HEALTH)}"]
        else:
            words += [f"--address={self.address(self.names[0])}:{PORT}", f"--num-cpus={CPUS}"]
        return subprocess.Popen(self.command(name, *words), stdout=log, stderr=log)


@contextlib.contextmanager
def ray_network(count: int, *, has_token: bool = True) -> Iterator[RayNetwork]:
    """A head and `count` nodes, until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # the paths of Ray's sockets must be short
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(16))
    with machines(count) as net, (folder / "cluster.txt").open("wb") as log:
        made = RayNetwork(net.prefix, net.names, folder, has_token)
        started: list[subprocess.Popen[bytes]] = []
        try:
            for name in net.names:
                started.append(made.start(name, log))
                _wait_until_up(folder, started)
            yield made
        finally:
            for name in net.names:
                for pid in running_in(name):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            for process in started:
                process.wait()
            shutil.rmtree(folder)


def _wait_until_up(folder: Path, started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until every `ray start` has said so."""
    give_up_at = time.monotonic() + STARTED_WITHIN_S
    while (text := (folder / "cluster.txt").read_text()).count("Ray runtime started.") < len(started):
        assert started[-1].poll() is None, text[-3000:]
        assert time.monotonic() < give_up_at, text[-3000:]
        time.sleep(0.1)
