"""Containers of podman, and of docker's command line, on this machine."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from nemo_gym.sandbox import (
    AsyncSandbox,
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
    create_provider,
    get_provider_class,
)
from nemo_gym.sandbox.providers.containers import Container
from nemo_gym.testing.sandbox_conformance import check_sandbox_provider
from tests.sandbox.container_engines import CLOSED, IMAGE, sandbox_of
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long_file


async def test_a_command_runs_in_the_container_with_its_environment(engine: str) -> None:
    several = "two\nlines"
    async with sandbox_of(engine, workdir="/srv", env={"A": "1 $HOME", "B": several}) as sandbox:
        await sandbox.start()
        done = await sandbox.exec(
            'pwd; echo "$A"; echo "$B"; echo "$C"; echo no >&2; exit 3', env={"C": "x y"}
        )
        assert done == SandboxExecResult("/srv\n1 $HOME\ntwo\nlines\nx y\n", "no\n", 3)
        assert (await sandbox.exec("pwd", cwd="/tmp")).stdout == "/tmp\n"
        assert (await sandbox.exec("id -u", user="worker")).stdout == "1000\n"
        assert (await sandbox.exec("id -u", user="root")).stdout == "0\n"
        await sandbox.exec("echo kept > /tmp/state")
        assert (await sandbox.exec("cat /tmp/state")).stdout == "kept\n"
        assert (await sandbox.exec("ls /sys/class/net")).stdout == "lo\n"


async def test_the_container_ends_with_the_sandbox_and_is_named_afterwards(engine: str) -> None:
    sandbox = sandbox_of(engine)
    await sandbox.start()
    provider, handle = sandbox._provider, sandbox._require_handle()
    assert await sandbox.status() is SandboxStatus.RUNNING
    await provider.close(handle)
    assert await provider.status(handle) is SandboxStatus.STOPPED
    gone = await sandbox.exec("true")
    assert (gone.return_code, gone.error_type) == (125, "sandbox")
    await sandbox.stop()
    assert await sandbox.status() is SandboxStatus.STOPPED


async def test_a_paused_sandbox_goes_on(engine: str) -> None:
    async with sandbox_of(engine) as sandbox:
        await sandbox.start()
        await sandbox.pause()
        assert await sandbox.status() is SandboxStatus.PAUSED
        await sandbox.resume()
        assert (await sandbox.exec("echo on")).stdout == "on\n"


async def test_another_process_connects_to_a_sandbox(engine: str) -> None:
    async with sandbox_of(engine) as owner:
        await owner.start()
        descriptor = json.loads(json.dumps(await owner.serialize()))
        guest = await AsyncSandbox.connect(descriptor, provider=create_provider({engine: CLOSED}))
        await guest.exec("echo from the guest > /tmp/note")
        await guest.disconnect()
        assert (await owner.exec("cat /tmp/note")).stdout == "from the guest\n"
    with pytest.raises(RuntimeError, match="stopped"):
        await AsyncSandbox.connect(descriptor, provider=create_provider({engine: CLOSED}))


async def test_a_service_is_reached_at_its_endpoint(engine: str) -> None:
    async with sandbox_of(engine, {"create": {}}, ports=(8000,)) as sandbox:
        await sandbox.start()
        answer = r"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        await sandbox.exec(
            f"setsid nc -l -p 8000 -e sh -c \"printf '{answer}'\" >/dev/null 2>&1 </dev/null &"
        )
        endpoint = await sandbox.endpoint(8000)
        async with aiohttp.ClientSession() as client, client.get(endpoint.endpoint) as reply:
            assert await reply.text() == "ok"
        with pytest.raises(ValueError, match="9000"):
            await sandbox.endpoint(9000)


async def test_limits_reach_the_container(engine: str) -> None:
    async with sandbox_of(engine, resources={"memory_mib": 64, "cpu": 1}) as sandbox:
        await sandbox.start()
        limit = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"
        assert (await sandbox.exec(limit)).stdout == f"{64 << 20}\n"


def test_containers_keep_the_contract(engine: str) -> None:
    check_sandbox_provider(create_provider({engine: CLOSED}), SandboxSpec(image=IMAGE))


async def test_a_service_outlives_its_command(engine: str) -> None:
    async with sandbox_of(engine) as sandbox:
        await sandbox.start()
        service = '(until test -e go; do sleep 0.1; done; echo "$NAME" > done) > /dev/null 2>&1 &'
        await sandbox.exec(service, env={"NAME": "gym"}, preserve_background_services=True)
        done = await sandbox.exec("touch go; until test -s done; do sleep 0.1; done; cat done")
        assert done.stdout == "gym\n"


async def test_a_container_ends_after_its_lifetime(engine: str) -> None:
    async with sandbox_of(engine, ttl_s=10) as sandbox:
        await sandbox.start()
        async with asyncio.timeout(TIMEOUT_S):
            while await sandbox.status() is SandboxStatus.RUNNING:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.5)
        assert await sandbox.status() is SandboxStatus.STOPPED


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (SandboxSpec(), "image"),
        (SandboxSpec(image="localhost/no-such-image:1"), "no-such-image"),
        (SandboxSpec(image=IMAGE, provider_options={"network_policy": {}}), "network_policy"),
        (SandboxSpec(image=IMAGE, entrypoint=["/bin/true"]), "sandbox|container|probe"),
    ],
)
async def test_a_container_that_cannot_run_says_why_and_is_removed(
    engine: str, spec: SandboxSpec, message: str
) -> None:
    provider = create_provider({engine: CLOSED})
    with pytest.raises(SandboxCreateError, match=message):
        await provider.create(spec)


async def test_unused_fields_are_logged(engine: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    fields: dict[str, Any] = {
        "resources": {"disk_gib": 9},
        "provider_options": {"resource_requests": "limits"},
    }
    async with sandbox_of(engine, **fields) as sandbox:
        await sandbox.start()
    assert f"{engine} does not use provider_options.resource_requests, disk_gib" in caplog.text


async def test_mounted_folders_and_other_arguments_are_the_users(engine: str, tmp_path: Path) -> None:
    options = {"volumes": f"{tmp_path}:/mnt/here", "run_args": ["--hostname", "box"]}
    async with sandbox_of(engine, provider_options=options) as sandbox:
        await sandbox.start()
        await sandbox.exec("hostname > /mnt/here/name")
    assert (tmp_path / "name").read_text() == "box\n"


def test_a_working_engine_lacks_nothing_but_images(engine: str) -> None:
    provider = get_provider_class(engine)
    assert provider.find_missing({}) is None
    assert provider.find_missing_image(f"docker://{IMAGE}") is None
    assert "no-such-image" in provider.find_missing_image("localhost/no-such-image:1")


def test_a_missing_program_daemon_or_option_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_missing = get_provider_class("docker").find_missing
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "needs the program `docker`" in find_missing({})
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho Cannot connect to the Docker daemon >&2; exit 1\n")
    program.chmod(0o755)
    assert find_missing({}) == "`docker info` fails: Cannot connect to the Docker daemon"
    assert "no netwrk" in find_missing({"create": {"netwrk": "none"}})


async def test_a_host_network_has_no_names_of_services(engine: str) -> None:
    provider = create_provider({engine: {"create": {"network": "host"}}})
    with pytest.raises(ValueError, match="network of their own"):
        provider.validate_networking()  # type: ignore[attr-defined]
    handle = SandboxHandle("nemo-gym-none", engine, Container("nemo-gym-none"))
    with pytest.raises(RuntimeError, match="no address"):
        await provider.network_address(handle)  # type: ignore[attr-defined]
