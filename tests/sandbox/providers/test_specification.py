"""The specification of a sandbox."""

from __future__ import annotations

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
