"""Providers by name."""

from __future__ import annotations

import pytest

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
    monkeypatch.setattr(provider_registry, "_providers", dict(provider_registry._providers))


@pytest.mark.usefixtures("registry")
async def test_a_registered_provider_is_used() -> None:
    register_provider("recording", RecordingProvider)
    assert list_providers() == ["local", "recording"]
    assert get_provider_class("recording") is RecordingProvider
    with pytest.raises(ValueError, match="already"):
        register_provider("recording", RecordingProvider)
    with pytest.raises(ValueError, match="a name"):
        register_provider("", RecordingProvider)
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
