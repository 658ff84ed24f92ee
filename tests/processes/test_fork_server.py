from __future__ import annotations

import os
import resource
import signal

import pytest

from nemo_gym.processes.fork_server import ForkServer, ForkServerGone
from tests.processes.forked import code_of
from tests.waiting import until_gone


def test_a_child_calls_its_function_and_its_exit_code_is_known(server: ForkServer) -> None:
    assert code_of(server.fork("child", "builtins:print", ("x",), descriptors={})) == 0
    assert code_of(server.fork("child", "sys:exit", (3,), descriptors={})) == 3
    assert code_of(server.fork("child", "os:abort", descriptors={})) == -signal.SIGABRT


async def test_children_die_with_a_killed_server_and_the_next_request_starts_another(
    server: ForkServer,
) -> None:
    child = server.fork("child", "time:sleep", (300,), descriptors={})
    pid = await child.wait_for_start()
    os.kill(server.start(), signal.SIGKILL)
    assert await child.wait_for_end() == -signal.SIGKILL
    await until_gone(pid)
    assert await server.fork("child", "sys:exit", (3,), descriptors={}).wait_for_end() == 3


def test_a_server_of_a_process_with_many_connections_works(server: ForkServer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    held: list[int] = []
    try:
        while not held or held[-1] < 1024:  # a descriptor that `select` refuses
            held.append(os.dup(0))
        assert code_of(server.fork("child", "sys:exit", (3,), descriptors={})) == 3
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_closed_server_forks_nothing() -> None:
    server = ForkServer()
    child = server.fork("child", "time:sleep", (300,), descriptors={})
    server.close()
    server.close()
    assert code_of(child) == -signal.SIGTERM
    with pytest.raises(ForkServerGone):
        server.fork("child", "builtins:print", descriptors={})
