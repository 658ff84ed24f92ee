"""The specification of a sandbox."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nemo_gym.sandbox import (
    SandboxResources,
    SandboxSpec,
)


def test_resources_are_read_from_a_mapping() -> None:
    spec = SandboxSpec(resources={"cpu": "2", "memory_mib": 512})
    assert spec.resources == SandboxResources(cpu=2.0, memory_mib=512)
    assert SandboxResources.from_mapping(None) == SandboxResources()
    with pytest.raises(ValueError, match="memory"):
        SandboxResources.from_mapping({"memory": 1})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"env": {"A": 1}}, "env.A must be text, not 1."),
        ({"env": {"": "x"}}, "env"),
        ({"env": {"A=B": "x"}}, "env.A=B"),
        ({"env": {"A": "x\0y"}}, "env.A"),
        ({"env": {"A": None}}, "env.A must be text"),
        ({"env": ["A=1"]}, "env must be a mapping"),
        ({"files": {"a.bin": 3}}, "files.a.bin must be text, not 3."),
        ({"ports": (0,)}, r"ports must be greater than or equal to 1, not 0."),
        ({"ports": (80, 70000)}, r"ports must be less than or equal to 65535, not 70000."),
        ({"ports": "8000"}, "ports"),
        ({"ports": ("http",)}, r"ports must be a whole number, not 'http'"),
        ({"ttl_s": 0}, "ttl_s must be greater than 0, not 0."),
        ({"ready_timeout_s": -1}, "ready_timeout_s must be greater than 0, not -1."),
        ({"ttl_s": float("nan")}, "ttl_s must be a finite number"),
        ({"entrypoint": "bash"}, "entrypoint must be a list, not 'bash'."),
        ({"resources": {"memory_mib": -1}}, "memory_mib must be greater than or equal to 0, not -1."),
        ({"resources": {"memory_mib": 2.7}}, "memory_mib must be a whole number, not 2.7."),
        ({"resources": {"cpu": "many", "gpu": -1}}, "cpu must be a number, not 'many'. gpu must be"),
        ({"env": {"A": 1}, "ports": (0,)}, r"env.A must be text, not 1. ports must be"),
    ],
)
def test_values_that_no_provider_could_honour_are_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        SandboxSpec(**fields)


def test_a_secret_variable_is_not_shown() -> None:
    with pytest.raises(ValueError, match=r"env.API_KEY must be text\.$"):
        SandboxSpec(env={"API_KEY": 12345})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "resources",
    [
        SandboxResources(cpu=0, memory_mib=0, gpu=0),
        SandboxResources(cpu=0.5, gpu_type="h100"),
        {},
        {"cpu": None},
    ],
)
def test_resources_may_be_left_to_the_provider(resources: Any) -> None:
    assert SandboxSpec(resources=resources).resources == SandboxResources(
        **(resources if isinstance(resources, dict) else vars(resources))
    )


def test_a_specification_keeps_what_a_provider_knows() -> None:
    client = object()
    spec = SandboxSpec(ports=[8000], entrypoint=("sleep", "9"), provider_options={"client": client}, ttl_s=60)  # type: ignore[arg-type]
    assert (spec.ports, spec.entrypoint, spec.ttl_s) == ((8000,), ["sleep", "9"], 60.0)
    assert replace(spec, image="x").provider_options["client"] is client
