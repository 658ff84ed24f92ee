"""The ecosystem's sandbox interface, with the local provider and with a registered one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from fastapi import Request

from nemo_gym.base_resources_server import (
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.failures import ConfigError, SandboxError
from nemo_gym.sandbox import (
    AsyncSandbox,
    AsyncSandboxCompose,
    Sandbox,
    SandboxCreateError,
    SandboxCreateVerificationError,
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
)
from nemo_gym.testing import run_environment
from nemo_gym.transport.upstream_error import UpstreamError
from tests.sandbox.recording_provider import RecordingProvider

LOCAL: dict[str, Any] = {"local": {}}


async def test_a_session_from_start_to_stop(tmp_path: Path) -> None:
    spec = SandboxSpec(env={"GREETING": "hello"}, files={"notes/a.txt": "one\n"})
    async with AsyncSandbox(LOCAL, spec) as sandbox:
        assert await sandbox.status() is SandboxStatus.UNKNOWN
        await sandbox.start()
        assert await sandbox.status() is SandboxStatus.RUNNING
        done = await sandbox.exec(
            'echo "$GREETING $NAME"; cat a.txt; exit 3', cwd="notes", env={"NAME": "gym"}
        )
        assert done == SandboxExecResult("hello gym\none\n", "", 3)
        (tmp_path / "in").write_bytes(b"\x00two")
        await sandbox.upload(tmp_path / "in", "deep/er/file")
        assert (await sandbox.exec("wc -c < deep/er/file")).stdout == "4\n"
        await sandbox.download("deep/er/file", str(tmp_path / "out" / "file"))
        assert (tmp_path / "out" / "file").read_bytes() == b"\x00two"
    assert await sandbox.status() is SandboxStatus.STOPPED
    with pytest.raises(RuntimeError, match="not started"):
        await sandbox.exec("true")
    with pytest.raises(RuntimeError, match="once"):
        await sandbox.start()


async def test_commands_run_in_the_workdir() -> None:
    sandbox = AsyncSandbox(LOCAL)
    try:
        await sandbox.start(SandboxSpec(workdir="/workspace/task", files={"/workspace/task/x": "1"}))
    except SandboxCreateError as error:
        pytest.skip(f"mounting a workdir needs bubblewrap: {error}")
    assert (await sandbox.exec("pwd; ls")).stdout == "/workspace/task\nx\n"
    await sandbox.stop()


async def test_a_failed_start_deletes_the_sandbox() -> None:
    provider = RecordingProvider(broken=True)
    sandbox = AsyncSandbox(provider, SandboxSpec(files={"f": "text"}))
    with pytest.raises(OSError, match="no room"):
        await sandbox.start()
    assert provider.calls == ["close"]
    with pytest.raises(ValueError, match="SandboxSpec"):
        await AsyncSandbox(provider).start()


async def test_a_failed_setup_stops_the_sandbox() -> None:
    provider = RecordingProvider()

    async def setup(sandbox: AsyncSandbox) -> None:
        await sandbox.exec("prepare")
        raise RuntimeError("no setup")

    with pytest.raises(RuntimeError, match="no setup"):
        await AsyncSandbox(provider).start_with_setup(SandboxSpec(), setup)
    assert provider.calls[-2:] == ["close", "aclose"]


async def test_a_shared_provider_and_a_borrowed_sandbox_are_left_to_their_owners() -> None:
    provider = RecordingProvider()
    sandbox = AsyncSandbox(provider, SandboxSpec(), owns_provider=False)
    await sandbox.start()
    await sandbox.disconnect()
    await sandbox.stop()
    assert provider.calls == []


async def test_an_ability_that_the_provider_lacks_is_named() -> None:
    sandbox = AsyncSandbox(RecordingProvider(), SandboxSpec())
    await sandbox.start()
    with pytest.raises(NotImplementedError, match="'recording' has no endpoints"):
        await sandbox.endpoint(80)
    for call in (sandbox.pause, sandbox.resume):
        with pytest.raises(NotImplementedError, match="no pauses"):
            await call()
    with pytest.raises(NotImplementedError, match="no connections"):
        await sandbox.serialize()
    with pytest.raises(NotImplementedError, match="no connections"):
        await AsyncSandbox.connect({"sandbox_id": "1"}, provider=RecordingProvider())
    with pytest.raises(NotImplementedError, match="no terminal sessions"):
        await sandbox.pty.create()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("sandbox", r"not 'sandbox'\. Give it resolve_provider_config\('sandbox', self"),
        (None, r"not None\. Give it an object of a provider's class"),
        (RecordingProvider, "not <class"),
        (object(), "not <object"),
    ],
)
def test_a_sandbox_needs_a_provider(given: Any, message: str) -> None:
    for kind in (AsyncSandbox, Sandbox):
        with pytest.raises(ConfigError, match=message):
            kind(given, SandboxSpec())
    with pytest.raises(ConfigError, match=message):
        AsyncSandboxCompose(given, None)


async def test_a_connection_takes_the_block_of_a_provider() -> None:
    with pytest.raises(ConfigError, match="not 'sandbox'"):
        await AsyncSandbox.connect({"sandbox_id": "1"}, provider="sandbox")  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="'local' has no connections"):
        await AsyncSandbox.connect({"sandbox_id": "1"}, provider=LOCAL)


class KeepingProvider(RecordingProvider):
    """A provider with a way of its own for services, which takes a user and no environment."""

    async def exec_with_background_services(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        timeout_s: float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        self.calls.append(f"serve {command} {cwd} {timeout_s} {user}")
        return SandboxExecResult(None, None, 0)


async def test_services_that_outlive_their_command_need_the_ability() -> None:
    for lacking in (RecordingProvider(), LOCAL):
        async with AsyncSandbox(lacking, SandboxSpec()) as sandbox:
            await sandbox.start()
            with pytest.raises(NotImplementedError, match="has no services that outlive their command"):
                await sandbox.exec("serve &", preserve_background_services=True)
    provider = KeepingProvider()
    async with AsyncSandbox(provider, SandboxSpec(workdir="/app")) as sandbox:
        await sandbox.start()
        await sandbox.exec("http &", timeout_s=5, user=0, preserve_background_services=True)
        with pytest.raises(ValueError, match="'recording' takes no env for a command"):
            await sandbox.exec("http &", env={"A": "1"}, preserve_background_services=True)
        await sandbox.exec("plain", env={"A": "1"})
    assert provider.calls[0] == "serve http & /app 5 0"
    assert provider.calls[1].startswith("exec plain")


class FailingProvider(RecordingProvider):
    """A provider whose calls fail with `error`: `create`, or `exec` for the error of a lost service."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        if type(self.error) is SandboxError:
            return await super().create(spec)
        raise self.error

    async def exec(self, handle: SandboxHandle, command: str, **options: Any) -> SandboxExecResult:
        raise self.error


class SandboxEnvironment(SimpleResourcesServer):
    """An environment with a sandbox for each session."""

    provider: ClassVar[Any] = None

    async def seed_session(self, request: Request, body: BaseSeedSessionRequest) -> BaseSeedSessionResponse:  # type: ignore[override]
        async with AsyncSandbox(type(self).provider, SandboxSpec()) as sandbox:
            await sandbox.start()
            await sandbox.exec("true")
        return BaseSeedSessionResponse()

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)


@pytest.mark.parametrize(
    ("provider", "kind", "is_retryable"),
    [
        (FailingProvider(SandboxCreateError("busy")), "sandbox:create_failed", True),
        (FailingProvider(SandboxCreateVerificationError("no probe")), "sandbox:create_failed", True),
        (FailingProvider(SandboxCreateError("no GPU", retryable=False)), "sandbox:create_failed", False),
        (FailingProvider(SandboxCreateError("full", code="no_room")), "sandbox:no_room", True),
        (FailingProvider(ConnectionResetError("gone")), "sandbox:create_failed", True),
        (FailingProvider(TimeoutError("late")), "sandbox:create_failed", True),
        (FailingProvider(SandboxError("the service is gone")), "sandbox:sandbox_failed", True),
        (FailingProvider(KeyError("a bug")), "verifier:unhandled_exception", False),
        (RecordingProvider(), None, None),
        ({"local": {"shel": "sh"}}, "config:invalid_config", False),
        ("sandbox", "config:no_sandbox_provider", False),
    ],
)
def test_the_failure_of_an_attempt_names_the_sandbox(
    provider: Any, kind: str | None, is_retryable: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SandboxEnvironment, "provider", provider)
    row = {"responses_create_params": {"input": "Do it."}}
    if kind is None:
        (scored,) = run_environment(SandboxEnvironment, [row], ["Done."])
        assert scored["reward"] == 1.0
        return
    with pytest.raises(UpstreamError) as raised:
        run_environment(SandboxEnvironment, [row], ["Done."])
    failure = raised.value.failure
    assert failure is not None
    assert (failure.kind, failure.retryable) == (kind, is_retryable)


async def test_a_start_that_the_system_refuses_is_a_failed_creation() -> None:
    for provider in (FailingProvider(ConnectionRefusedError("no daemon")), RecordingProvider(broken=True)):
        with pytest.raises(SandboxCreateError, match="cannot start a sandbox: no ") as raised:
            await AsyncSandbox(provider, SandboxSpec(files={"f": "text"})).start()
        assert isinstance(raised.value, OSError | RuntimeError)
        assert isinstance(raised.value.__cause__, OSError)


@pytest.mark.parametrize(
    "spec",
    [SandboxSpec(image="x"), SandboxSpec(workdir="relative"), SandboxSpec(resources={"gpu": 1})],
)
async def test_a_specification_that_the_provider_cannot_honour_is_not_tried_again(spec: SandboxSpec) -> None:
    with pytest.raises(SandboxCreateError) as raised:
        await AsyncSandbox(LOCAL, spec).start()
    assert not raised.value.failure.retryable
