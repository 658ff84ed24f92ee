"""Programs with a user of their own in a network of their own."""

from __future__ import annotations

import os
import shutil
import socket

import pytest

from nemo_gym.isolation.confinement import IsolationKind, isolations
from nemo_gym.isolation.execution import ConfinedRunner
from tests.isolation.confined import INSTALLATION, PYTHON, run

CODE = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), 2)
print("reached itself")
socket.create_connection(("127.0.0.1", PORT), 2)
"""


def own_network_runner(kind: IsolationKind) -> ConfinedRunner:
    ways = isolations(INSTALLATION.folders, python=INSTALLATION, own_network=True)
    candidates = [way for way in ways if way.kind is kind]
    if not candidates or os.geteuid() != 0:
        pytest.skip(f"this machine has no {kind} with a network of its own")
    return ConfinedRunner(probe=(*PYTHON, "pass"), python=INSTALLATION, candidates=candidates)


@pytest.mark.parametrize("kind", [IsolationKind.BUBBLEWRAP, IsolationKind.OWN_USER])
async def test_a_program_reaches_its_own_loopback_interface_and_nothing_else(kind: IsolationKind) -> None:
    sandbox = own_network_runner(kind)
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = await run(sandbox, CODE.replace("PORT", str(server.getsockname()[1])))
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert (done.stdout, done.exit_status) == (b"reached itself\n", 1)
    assert b"ConnectionRefusedError" in done.stderr


def test_without_unshare_no_user_of_its_own_is_offered(
    monkeypatch: pytest.MonkeyPatch, no_bubblewrap: None
) -> None:
    assert shutil.which("unshare") is None
    ways = isolations((), own_network=True, allow_unsandboxed=True)
    assert [way.kind for way in ways] == [IsolationKind.UNSANDBOXED]
