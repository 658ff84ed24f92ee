"""A gym on machines with a certificate each: its traffic is recorded on the way between them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Authority, overrides_of
from tests.cluster.cluster_gym import ENVIRONMENT, TASKS, ClusterGym, replicas
from tests.cluster.namespaces import Machines, machines, why_not
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

TOKEN = "the-token-of-this-run-0123456789"
KEYS = (f"+run_token={TOKEN}", replicas(ENVIRONMENT, "resources_servers", ENVIRONMENT, 3))
_RECORD = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire, open(sys.argv[1], "wb", 0) as file:
    file.write(b"begin")
    while True:
        file.write(wire.recv(1 << 17))
"""


@contextlib.contextmanager
def recorded(net: Machines, file: Path) -> Iterator[None]:
    """Write all that passes the switch to a file, within the block."""
    command = net.command(net.switch, sys.executable, "-c", _RECORD, str(file))
    with subprocess.Popen(command) as recorder:
        try:
            wait_until(lambda: file.exists() and file.stat().st_size > 0)
            yield
        finally:
            recorder.kill()


def gym_with_tls(net: Machines, folder: Path, *names: str) -> ClusterGym:
    """A gym whose machines have a certificate each, at the same path.

    `names`: those in the certificates of the hosts; by default the address of each.
    """
    files = folder / "tls"
    authority = Authority(files)
    tls = authority.issue(net.address(net.names[0]), to="own")
    for host in net.hosts:
        authority.issue(*(names or (net.address(host),)), to=host)
    start = files / "start"
    start.write_text(f'#!/bin/sh\nmount --bind "{files}/$1" "{files}/own" && shift && exec "$@"\n')
    start.chmod(0o700)
    gym = ClusterGym(net, folder, *KEYS, *overrides_of(tls))
    gym.placement = [each for each in gym.placement if "host_command" not in each]
    gym.placement.append(f'+host_command="{net.host_command} {start} {{host}}"')
    return gym


def bytes_of_a_run(gym: ClusterGym) -> bytes:
    """Collect twenty rollouts, check them, and return what was on the wire."""
    wire = gym.folder / "wire"
    with recorded(gym.machines, wire), gym:
        assert gym.collect(4).wait(120) == 0, (gym.folder / "collect.txt").read_text()
        assert len(gym.rows()) == 4 * TASKS
        gym.check_books(4 * TASKS)
    return wire.read_bytes()


def test_the_token_is_on_the_wire_only_without_tls(tmp_path: Path) -> None:
    for name in ("plain", "secret"):
        (tmp_path / name).mkdir()
    with machines(2) as net:
        plain = bytes_of_a_run(ClusterGym(net, tmp_path / "plain", *KEYS))
        assert plain.count(TOKEN.encode()) > 100
        assert b'"reward"' in plain
        secret = bytes_of_a_run(gym_with_tls(net, tmp_path / "secret"))
    assert len(secret) > len(plain) / 2
    for text in (TOKEN.encode(), b'"reward"', b"HTTP/1.1", b'"kind"'):
        assert secret.count(text) == 0, text


def test_a_node_without_a_certificate_for_its_address_ends_the_command(tmp_path: Path) -> None:
    with machines(1) as net:
        gym = gym_with_tls(net, tmp_path, "10.99.99.99")
        gym.begin()
        assert gym.process is not None
        assert gym.process.wait(60) != 0
        assert f"is valid neither for {net.address(net.hosts[0])} nor for {net.hosts[0]}" in gym.log
        assert "subjectAltName" in gym.log
