"""The fork server of a command that starts servers."""

from __future__ import annotations

import os
from contextlib import closing

from nemo_gym.launch.early_start import early_fork_server, start_fork_server
from tests.processes.forked import code_of
from tests.waiting import wait_until_gone


def test_a_preloaded_server_is_single_threaded() -> None:
    with closing(start_fork_server()) as server:
        assert code_of(server.fork("child", "builtins:print", descriptors={})) == 0
        assert len(os.listdir(f"/proc/{server.start()}/task")) == 1  # noqa: PTH208


def test_closing_a_server_without_children_is_immediate() -> None:
    with closing(start_fork_server()) as server:
        pid = server.start()
    wait_until_gone(pid)


def test_a_command_that_starts_no_server_gets_no_fork_server() -> None:
    for arguments in (["--help"], ["-h", "--help"], ["+config_paths=[a.yaml]", "+dry_run=true"]):
        with early_fork_server(arguments) as server:
            assert server is None
    with early_fork_server(["+config_paths=[a.yaml]"]) as server:
        assert server is not None
