"""The services of a Compose file, in containers of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sandbox import AsyncSandboxCompose, SandboxSpec, SandboxStatus, create_provider
from tests.sandbox.container_engines import CLOSED, IMAGE
from tests.sandbox.recording_provider import RecordingProvider

pytestmark = pytest.mark.long_file

REPLY = r"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes"
SERVICES: dict[str, Any] = {
    "web": {
        "image": IMAGE,
        "command": [
            "sh",
            "-c",
            "echo up > /tmp/state; while :; do nc -l -p 80 -e sh -c \"printf '$REPLY'\"; done",
        ],
        "environment": {"REPLY": REPLY},
        "healthcheck": {"test": ["CMD-SHELL", "test -s /tmp/state"], "interval": "100ms", "retries": 100},
        "depends_on": {"setup": {"condition": "service_completed_successfully"}},
    },
    "setup": {"image": IMAGE, "command": ["sh", "-c", "sleep 1; echo done > /tmp/setup"]},
    "main": {
        "image": IMAGE,
        "command": ["sh", "-c", "sleep 600"],
        "depends_on": {"web": {"condition": "service_healthy"}},
    },
}


def compose_file(folder: Path, services: dict[str, Any]) -> Path:
    file = folder / "compose.yaml"
    file.write_text(json.dumps({"services": services}))
    return file


async def test_services_start_in_order_and_reach_each_other_by_name(engine: str, tmp_path: Path) -> None:
    specs = {"main": SandboxSpec(env={"ROLE": "agent"})}
    compose = AsyncSandboxCompose({engine: {}}, compose_file(tmp_path, SERVICES), service_specs=specs)
    async with compose:
        assert set(compose.services) == {"web", "setup", "main"}
        main = compose.services["main"]
        answer = await main.exec('echo "$ROLE"; printf "GET / HTTP/1.0\\r\\n\\r\\n" | nc web 80 | tail -n 1')
        assert answer.stdout == "agent\nyes"
        provider = create_provider({engine: {}})
        other = await AsyncSandboxCompose.connect(await compose.serialize(), provider=provider)
        assert (await other.services["setup"].exec("cat /tmp/setup")).stdout == "done\n"
        assert other.project == compose.project
    assert [await sandbox.status() for sandbox in compose.services.values()] == [SandboxStatus.STOPPED] * 3
    await compose.stop()
    with pytest.raises(RuntimeError, match="once"):
        await compose.start()


@pytest.mark.parametrize(
    ("service", "message"),
    [
        ({"command": ["sh", "-c", "echo no room >&2; exit 5"]}, "'one' ended at once: no room"),
        (
            {
                "command": ["sh", "-c", "sleep 600"],
                "healthcheck": {"test": "false", "interval": "10ms", "retries": 2},
            },
            "'one' is not healthy",
        ),
    ],
)
async def test_a_service_that_fails_stops_all(
    engine: str, tmp_path: Path, service: dict[str, Any], message: str
) -> None:
    services = {
        "one": {"image": IMAGE, **service},
        "two": {"image": IMAGE, "command": ["true"], "depends_on": {"one": {"condition": "service_healthy"}}},
    }
    if "healthcheck" not in service:
        services = {"one": services["one"]}
    compose = AsyncSandboxCompose({engine: {}}, compose_file(tmp_path, services))
    with pytest.raises(RuntimeError, match=message):
        await compose.start()
    assert [await sandbox.status() for sandbox in compose.services.values()] == [SandboxStatus.STOPPED] * len(
        services
    )


async def test_a_single_service_needs_no_network(engine: str, tmp_path: Path) -> None:
    services = {"one": {"image": IMAGE, "command": ["sleep", "600"], "user": "worker"}}
    async with AsyncSandboxCompose({engine: CLOSED}, compose_file(tmp_path, services)) as compose:
        assert (await compose.services["one"].exec("ls /sys/class/net")).stdout == "lo\n"


async def test_services_that_could_not_start_are_named_before_any_does(tmp_path: Path) -> None:
    provider = RecordingProvider()
    services: dict[str, Any] = {
        "one": {"image": IMAGE},
        "two": {"image": IMAGE, "command": ["x"], "depends_on": {"one": {"condition": "service_healthy"}}},
    }
    with pytest.raises(ValueError, match=r"one has neither .*; two waits for one, which has no healthcheck"):
        await AsyncSandboxCompose(provider, compose_file(tmp_path, services)).start()
    services["one"] |= {"command": ["y"], "healthcheck": {"test": "true"}}
    with pytest.raises(NotImplementedError, match="'recording' has no network between sandboxes"):
        await AsyncSandboxCompose(provider, compose_file(tmp_path, services)).start()
    with pytest.raises(ValueError, match="Compose file is needed"):
        await AsyncSandboxCompose(provider, None).start()
    assert provider.specs == []
