"""The arguments with which a container starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sandbox.providers.docker._run_command import (
    environment_arguments,
    find_unused_options,
    normalize_image,
    run_arguments,
)
from nemo_gym.sandbox.providers.docker.options import DockerCreateConfig
from nemo_gym.sandbox.providers.specification import SandboxCreateError, SandboxSpec

START = ["run", "--detach", "--name", "n", "--label", "nemo-gym.sandbox=1"]
WAIT = ["--entrypoint", "/bin/sh", "image", "-c", "while :; do sleep 2147483647; done"]


def arguments(create: dict[str, Any] | None = None, **fields: Any) -> list[str]:
    options = DockerCreateConfig(**{"use_init": False, **(create or {})})
    return run_arguments("n", SandboxSpec(image="image", **fields), options, [])


@pytest.mark.parametrize(
    ("fields", "create", "expected"),
    [
        ({}, {}, WAIT),
        ({}, {"use_init": True}, ["--init", *WAIT]),
        ({"metadata": {"team": "gym"}}, {}, ["--label", "team=gym", *WAIT]),
        ({}, {"network": "none", "read_only": True}, ["--network", "none", "--read-only", *WAIT]),
        ({}, {"cap_drop": ["ALL"], "pids_limit": 9}, ["--cap-drop", "ALL", "--pids-limit", "9", *WAIT]),
        ({"ports": [80]}, {}, ["--publish", "127.0.0.1::80", *WAIT]),
        ({"ports": [80]}, {"publish_host": "::1"}, ["--publish", "[::1]::80", *WAIT]),
        (
            {"resources": {"cpu": 1.5, "memory_mib": 64}},
            {},
            ["--cpus", "1.5", "--memory", "64m", "--memory-swap", "64m", *WAIT],
        ),
        ({"resources": {"cpu": 1.5}}, {"apply_resource_limits": False}, WAIT),
        ({"provider_options": {"volumes": ["/a:/b"]}}, {}, ["--volume", "/a:/b", *WAIT]),
        ({"provider_options": {"run_args": ["-x"]}}, {"extra_run_args": ["-y"]}, ["-y", "-x", *WAIT]),
        ({"ttl_s": 60}, {}, ["--rm", *WAIT[:-1], "sleep 60"]),
        (
            {"entrypoint": ["serve", "--all"], "workdir": "/srv"},
            {},
            ["--workdir", "/srv", "--entrypoint", "serve", "image", "--all"],
        ),
    ],
)
def test_fields_and_options_become_arguments(
    fields: dict[str, Any], create: dict[str, Any], expected: list[str]
) -> None:
    assert arguments(create, **fields) == [*START, *expected]


def test_an_image_may_have_apptainers_scheme_and_must_be_there() -> None:
    assert normalize_image("docker://ubuntu:22.04") == "ubuntu:22.04"
    with pytest.raises(SandboxCreateError, match="image"):
        normalize_image(None)


def test_unused_options_are_listed_and_a_network_policy_is_refused() -> None:
    assert find_unused_options({"volumes": [], "resource_requests": 1}) == [
        "provider_options.resource_requests"
    ]
    with pytest.raises(SandboxCreateError, match="network: none"):
        find_unused_options({"network_policy": {}})


def test_values_of_variables_are_in_a_private_file_or_the_clients_environment() -> None:
    with environment_arguments({"A": "1 #", "B": "two\nlines"}) as (options, variables):
        assert options[0] == "--env-file"
        assert options[2:] == ["--env", "B"]
        file = Path(options[1])
        assert (file.read_text(), file.stat().st_mode & 0o777) == ("A=1 #\n", 0o600)
        assert variables == {"B": "two\nlines"}
    assert not file.exists()
    with environment_arguments({}) as nothing:
        assert nothing == ([], {})
