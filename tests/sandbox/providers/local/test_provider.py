"""The local provider: commands, files and limits on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sandbox import (
    AsyncSandbox,
    LocalProvider,
    SandboxCreateError,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)

LOCAL: dict[str, Any] = {"local": {}}


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
