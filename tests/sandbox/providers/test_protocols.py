"""The abilities of the providers of this machine."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.sandbox.providers import (
    ConnectableProvider,
    SupportsSandboxEndpoint,
    SupportsSandboxNetwork,
    SupportsSandboxPauseResume,
    SupportsSandboxPty,
    SupportsSandboxPtyAttach,
    base,
    get_provider_class,
)
from nemo_gym.sandbox.providers.protocols import SandboxPtySession, SupportsAvailabilityCheck
from nemo_gym.sandbox.providers.terminal import TerminalProcess

CONTAINERS = [
    ConnectableProvider,
    SupportsSandboxEndpoint,
    SupportsSandboxNetwork,
    SupportsSandboxPauseResume,
    SupportsSandboxPty,
]
ABILITIES: dict[str, list[Any]] = {
    "apptainer": [ConnectableProvider, SupportsSandboxPty],
    "docker": CONTAINERS,
    "local": [],
    "podman": CONTAINERS,
}


@pytest.mark.parametrize("name", ABILITIES)
def test_a_provider_has_its_abilities_and_no_others(name: str) -> None:
    provider = get_provider_class(name)
    unmade = object.__new__(provider)
    every = [*CONTAINERS, SupportsSandboxPtyAttach]
    assert [ability for ability in every if isinstance(unmade, ability)] == ABILITIES[name]
    assert isinstance(provider, SupportsAvailabilityCheck)
    operations = ("create", "exec", "upload_file", "download_file", "status", "close", "aclose")
    assert [operation for operation in operations if not hasattr(provider, operation)] == []


def test_a_terminal_of_an_engine_is_a_session() -> None:
    assert not [
        name for name in dir(SandboxPtySession) if name[0] != "_" and not hasattr(TerminalProcess, name)
    ]


def test_the_ecosystems_path_has_the_protocols() -> None:
    assert base.ConnectableProvider is ConnectableProvider
