"""The ecosystem's sandbox interface, with the local provider and with a registered one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nemo_gym.sandbox import (
    AsyncSandbox,
    LocalProvider,
    Sandbox,
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
    create_provider,
    get_provider_class,
    list_providers,
    register_provider,
)
from nemo_gym.sandbox.providers import registry as provider_registry

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


async def test_a_command_over_its_timeout_has_an_error_type() -> None:
    async with AsyncSandbox(LOCAL, SandboxSpec()) as sandbox:
        await sandbox.start()
        done = await sandbox.exec("echo started; sleep 30", timeout_s=2)
        assert (done.stdout, done.return_code, done.error_type) == ("started\n", 125, "timeout")
        assert (await sandbox.exec("echo again")).stdout == "again\n"


async def test_a_link_out_of_the_sandbox_gives_nothing_away(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    async with AsyncSandbox(LOCAL, SandboxSpec()) as sandbox:
        await sandbox.start()
        probe = await sandbox.exec(f"cat {tmp_path / 'secret'}")
        if probe.return_code == 0:
            pytest.skip("without bubblewrap programs see this machine's files")
        await sandbox.exec(f"ln -s {tmp_path} out")
        with pytest.raises(OSError, match="No such file"):
            await sandbox.download("out/secret", tmp_path / "copy")
        with pytest.raises(OSError, match="in the sandbox"):
            await sandbox.upload(tmp_path / "secret", "out/planted")
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (SandboxSpec(image="python:3.11"), "image"),
        (SandboxSpec(ports=(80,), entrypoint=["x"]), "entrypoint, ports"),
        (SandboxSpec(resources={"gpu": 1}), "resources.gpu"),
        (SandboxSpec(provider_options={"x": 1}), "provider_options"),
        (SandboxSpec(workdir="relative"), "workdir"),
    ],
)
async def test_the_local_provider_refuses_unsupported_requests(spec: SandboxSpec, named: str) -> None:
    with pytest.raises(SandboxCreateError, match=named):
        await LocalProvider().create(spec)


async def test_limits_that_the_local_provider_does_not_set_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = LocalProvider(ignore_image=True)
    spec = SandboxSpec(image="x", ttl_s=60, resources=SandboxResources(cpu=2.0, memory_mib=256))
    handle = await provider.create(spec)
    assert "does not set ttl_s, cpu" in caplog.text
    done = await provider.exec(handle, "ulimit -v")
    assert done.stdout == f"{256 * 1024}\n"
    with pytest.raises(ValueError, match="user"):
        await provider.exec(handle, "true", user="root")
    await provider.close(handle)
    await provider.close(handle)
    assert await provider.status(handle) is SandboxStatus.STOPPED


def test_the_blocking_sandbox_works_without_an_event_loop() -> None:
    with Sandbox(LOCAL, SandboxSpec()) as sandbox:
        assert sandbox.start() is sandbox
        assert sandbox.exec("echo hi").stdout == "hi\n"
        assert sandbox.status() is SandboxStatus.RUNNING
    sandbox.stop()
    assert sandbox.status() is SandboxStatus.STOPPED


async def test_the_blocking_sandbox_refuses_an_event_loop() -> None:
    sandbox = Sandbox(LOCAL, SandboxSpec())
    with pytest.raises(RuntimeError, match="AsyncSandbox"):
        sandbox.start()
    await asyncio.to_thread(sandbox.stop)


class Endpoint(NamedTuple):
    env_var: str
    url: str


class RecordingProvider:
    """A provider of an environment, which records its calls."""

    name = "recording"

    def __init__(self, *, broken: bool = False) -> None:
        self.broken, self.calls, self.specs = broken, list[str](), list[SandboxSpec]()

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        self.specs.append(spec)
        return SandboxHandle("1", self.name, None)

    async def exec(self, handle: SandboxHandle, command: str, **options: Any) -> SandboxExecResult:
        self.calls.append(f"exec {command} {options}")
        return SandboxExecResult(None, None, 0)

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        if self.broken:
            raise OSError("no room")
        text = await asyncio.to_thread(source_path.read_text)
        self.calls.append(f"upload {target_path} {text}")

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None: ...

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        return SandboxStatus.PAUSED

    async def close(self, handle: SandboxHandle) -> None:
        self.calls.append("close")

    async def aclose(self) -> None:
        self.calls.append("aclose")


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


async def test_a_failed_start_deletes_the_sandbox() -> None:
    provider = RecordingProvider(broken=True)
    sandbox = AsyncSandbox(provider, SandboxSpec(files={"f": "text"}))
    with pytest.raises(OSError, match="no room"):
        await sandbox.start()
    assert provider.calls == ["close"]
    with pytest.raises(ValueError, match="SandboxSpec"):
        await AsyncSandbox(provider).start()


def test_resources_are_read_from_a_mapping() -> None:
    spec = SandboxSpec(resources={"cpu": "2", "memory_mib": 512})
    assert spec.resources == SandboxResources(cpu=2.0, memory_mib=512)
    assert SandboxResources.from_mapping(None) == SandboxResources()
    with pytest.raises(ValueError, match="memory"):
        SandboxResources.from_mapping({"memory": 1})
