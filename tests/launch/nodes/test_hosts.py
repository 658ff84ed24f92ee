"""The machines of a configuration, and the command that starts a program there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.hosts import CommandHosts


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "placement=hosts has no hosts"),
        ({"hosts": ["a", {"host": "a"}]}, "hosts has a name twice: a, a"),
        ({"hosts": ["a", "b"]}, "host_command has no {host}: ssh"),
        (
            {"hosts": ["a"], "host_command": "ssh 'a"},
            "host_command is no command line \\(No closing quotation\\)",
        ),
        ({"hosts": ["a"], "host_command": "  "}, "host_command is empty"),
    ],
)
def test_unusable_hosts_are_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CommandHosts({"host_command": "ssh", **config})


def test_hosts_may_declare_what_they_have() -> None:
    [first, second] = CommandHosts({"hosts": ["a", {"host": "b", "num_gpus": 8}]}).keys
    assert (first.num_gpus, second.num_gpus) == (None, 8)


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    hosts = CommandHosts({"hosts": ["a"], "host_command": "no_such_program {host}"})
    with pytest.raises(LaunchError, match="on a cannot be started by `no_such_program`: No such file"):
        await hosts.start("a", b"", tmp_path / "log.txt")


async def test_other_braces_of_the_command_stay(tmp_path: Path) -> None:
    hosts = CommandHosts({"hosts": ["a"], "host_command": "sh -c 'echo ${HOME:+there} {host}'"})
    started = await hosts.start("a", b"", tmp_path / "log.txt")
    assert await started.wait() == "exit code 0"
    assert (tmp_path / "log.txt").read_bytes() == b"there a\n"


async def test_the_command_has_the_document_as_its_input(tmp_path: Path) -> None:
    hosts = CommandHosts({"hosts": ["a"], "host_command": f"sh -c 'cat >{tmp_path}/{{host}}; echo done'"})
    started = await hosts.start("a", b"the document", tmp_path / "log.txt")
    assert await started.wait() == "exit code 0"
    await started.end()
    assert (tmp_path / "a").read_bytes() == b"the document"
    assert (tmp_path / "log.txt").read_bytes() == b"done\n"
