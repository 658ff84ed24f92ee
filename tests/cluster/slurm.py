"""A private Slurm: a controller and a `slurmd` for every machine of a network of namespaces.

Every node has an address, a host name and a hosts file of its own, as on a real cluster. Everything else (ports, key,
state, logs) is in one folder, and all processes end with the block. Slurm's own services of this machine are not used.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.cluster import namespaces
from tests.cluster.namespaces import Machines, machines, running_in
from tests.waiting import wait_until

_PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "scontrol")
CPUS = 2
"""The CPUs of a node."""
GPUS = 4
"""The GPUs of a node: devices that do nothing."""
_CONF = """
ClusterName=test
SlurmctldHost=controller({controller})
MailProg=/bin/true
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool/%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SwitchType=switch/none
GresTypes=gpu
ReturnToService=2
KillWait=5
SlurmdTimeout=10
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
_NAMED = (  # A machine knows itself and the others by name
    'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"'
)


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin"  # the daemons are there, which not every user's PATH has


@cache
def why_not() -> str | None:
    """The reason why no Slurm can be started here; None if it can."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        return f"there is no {', '.join(missing)} (Debian: slurm-wlm, munge)"
    return namespaces.why_not()


@dataclass(frozen=True)
class Slurm:
    """A running Slurm. Its nodes are called n1, n2, …"""

    net: Machines
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": _path(), "SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *words: str, cwd: Path | None = None, variables: Mapping[str, str] | None = None) -> str:
        """Run a command beside the controller, and return its output. Raises `AssertionError` if it fails."""
        done = self._ask(*words, cwd=cwd, variables=variables)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def _ask(
        self, *words: str, cwd: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.net.command(self.net.names[0], *words),
            cwd=cwd or self.folder,
            env={**self.environment, **(variables or {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def kill(self, node: str) -> None:
        """End every process of a node at once, as a loss of power does."""
        _kill_all(self.net.hosts[int(node.removeprefix("n")) - 1])

    def job(self, number: str) -> dict[str, str]:
        """What Slurm knows about a job: `JobState`, `Restarts`, `ExitCode`, `BatchHost`, …"""
        words = self.run("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def node_states(self) -> list[str]:
        """The state of every node; nothing while the controller does not answer."""
        return self._ask("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()


@contextlib.contextmanager
def slurm(count: int, folder: Path) -> Iterator[Slurm]:
    """A Slurm with `count` nodes, until the end of the block."""
    folder.mkdir(mode=0o755)
    with machines(count) as net:
        _configure(net, folder)
        made = Slurm(net, folder)
        daemons = [_start_munge(folder)]
        try:
            daemons.append(_start(made, net.names[0], "controller", "slurmctld", "-D"))
            for number, name in enumerate(net.hosts, 1):
                daemons.append(_start(made, name, f"n{number}", "slurmd", "-D", "-N", f"n{number}"))
            wait_until(lambda: made.node_states() == ["idle"] * count)
            yield made
        finally:
            _end(net, daemons)


def _configure(net: Machines, folder: Path) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    controller = net.address(net.names[0])
    names = {f"n{number}": net.address(name) for number, name in enumerate(net.hosts, 1)}
    nodes = (
        f"NodeName={name} NodeAddr={address} CPUs={CPUS} Gres=gpu:{GPUS}" for name, address in names.items()
    )
    (folder / "slurm.conf").write_text(
        _CONF.format(controller=controller, folder=folder, nodes="\n".join(nodes))
    )
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    for number in range(GPUS):
        os.mknod(folder / f"gpu{number}", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
    known = {"localhost": "127.0.0.1", "controller": controller, **names}
    lines = (f"{address} {name}" for name, address in known.items())
    (folder / "hosts").write_text("\n".join(lines) + "\n")


def _start_munge(folder: Path) -> subprocess.Popen[bytes]:
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    files = {
        "key-file": key.name,
        "socket": "munge.socket",
        "pid-file": "munge.pid",
        "seed-file": "munge.seed",
        "log-file": "munge.log",
    }
    words = [f"--{option}={folder / name}" for option, name in files.items()]
    started = subprocess.Popen(
        ["munged", "--foreground", "--force", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PATH": _path()},
    )
    wait_until((folder / "munge.socket").exists)
    return started


def _start(slurm: Slurm, machine: str, name: str, *words: str) -> subprocess.Popen[bytes]:
    """Run a daemon on a machine that has a host name, and finds every other by its name."""
    named = ("unshare", "--uts", "--mount", "sh", "-ec", _NAMED, name, str(slurm.folder / "hosts"), *words)
    with (slurm.folder / f"{name}.txt").open("wb") as log:
        return subprocess.Popen(
            slurm.net.command(machine, *named),
            env=slurm.environment,
            cwd=slurm.folder,
            stdout=log,
            stderr=log,
        )


def _end(net: Machines, daemons: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the daemons, and every other process of the machines, which all belong to this Slurm."""
    for name in net.names:
        _kill_all(name)
    for daemon in daemons:
        daemon.kill()
        daemon.wait()
    wait_until(lambda: not any(running_in(name) for name in net.names))


def _kill_all(name: str) -> None:
    for pid in running_in(name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
