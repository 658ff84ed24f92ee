"""Providers by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sandbox import (
    AsyncSandbox,
    SandboxSpec,
    SandboxStatus,
    create_provider,
    get_provider_class,
    list_providers,
    register_provider,
)
from nemo_gym.sandbox.providers import registry as provider_registry
from tests.sandbox.recording_provider import Endpoint, RecordingProvider


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_registry, "_registered", {})


@pytest.mark.usefixtures("registry")
async def test_a_registered_provider_is_used() -> None:
    register_provider("recording", RecordingProvider)
    assert list_providers() == ["apptainer", "docker", "local", "podman", "recording", "rootless"]
    assert get_provider_class("recording") is RecordingProvider
    with pytest.raises(ValueError, match="already"):
        register_provider("recording", RecordingProvider)
    with pytest.raises(ValueError, match="a name"):
        register_provider("", RecordingProvider)
    register_provider("recording", RecordingProvider, override=True)
    provider = create_provider({"recording": None})
    assert isinstance(provider, RecordingProvider)
    sandbox = AsyncSandbox(provider, SandboxSpec(workdir="/app", files={"f": "text"}))
    await sandbox.start(outside_endpoints=[Endpoint("API", "http://x")])
    await sandbox.exec("run", timeout_s=5)
    assert await sandbox.status() is SandboxStatus.PAUSED
    await sandbox.stop(delete=True)
    await sandbox.stop()
    assert provider.specs[0].env == {"API": "http://x"}
    options = {"cwd": "/app", "env": None, "timeout_s": 5, "user": None}
    assert provider.calls == ["upload f text", f"exec run {options}", "close", "aclose"]


@pytest.mark.usefixtures("registry")
def test_a_wrong_option_of_a_program_is_named_with_the_right_ones() -> None:
    register_provider("recording", RecordingProvider)
    with pytest.raises(
        ConfigError, match=r"no key 'recording.brokn'. Did you mean 'broken'\? The options are broken"
    ):
        create_provider({"recording": {"brokn": True}})
    with pytest.raises(ConfigError, match=r"local\.concurrency must be greater than 0"):
        AsyncSandbox({"local": {"concurrency": 0}})


PACKAGE = """[nemo_gym.sandbox_providers]
cloud = tests.sandbox.recording_provider:RecordingProvider
"""


def publish(folder: Path, package: str, entry_points: str) -> None:
    information = folder / f"{package}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(entry_points)


def test_an_installed_package_publishes_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, "cloud_gym", PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "cloud" in list_providers()
    assert get_provider_class("cloud") is RecordingProvider
    publish(tmp_path, "other_gym", PACKAGE.replace("Recording", "Other"))
    with pytest.raises(ConfigError, match="Two packages publish a sandbox provider 'cloud'"):
        get_provider_class("cloud")
