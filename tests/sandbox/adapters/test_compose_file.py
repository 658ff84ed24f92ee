"""The part of the Compose format that sandboxes can honour."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.sandbox.adapters._compose_file import ComposeFile, read_compose_file

SERVICES = """
services:
  web:
    image: web:1
    command: serve --port 80
    environment: [MODE=test, EMPTY=]
    ports: [80, "81/tcp"]
    depends_on: {database: {condition: service_healthy}}
    mem_limit: 67108864
    cpus: 0.5
  database:
    image: database:1
    entrypoint: [run]
    command: [--all]
    environment: {USER: gym, NUMBER: 3}
    healthcheck: {test: [CMD, ready, a b], interval: 1m30s, retries: 2}
"""


def read(folder: Path, text: str) -> ComposeFile:
    (folder / "compose.yaml").write_text(text)
    return read_compose_file(folder / "compose.yaml")


def test_services_are_read_in_all_spellings(tmp_path: Path) -> None:
    described = read(tmp_path, SERVICES)
    web, database = described.services["web"], described.services["database"]
    assert described.order() == ["database", "web"]
    assert web.program == ["serve", "--port", "80"]
    assert database.program == ["run", "--all"]
    assert (web.environment, web.ports) == ({"MODE": "test", "EMPTY": ""}, [80, 81])
    assert web.resources == {"cpu": 0.5, "memory_mib": 64}
    assert database.environment == {"USER": "gym", "NUMBER": "3"}
    assert database.healthcheck is not None
    assert (database.healthcheck.command, database.healthcheck.interval) == ("ready 'a b'", 90.0)


def test_everything_that_cannot_be_honoured_is_named_at_once(tmp_path: Path) -> None:
    text = "services: {web: {build: ., privileged: true, ports: ['8080:80']}}\nvolumes: {data: {}}\n"
    with pytest.raises(ValueError, match="cannot run in sandboxes") as raised:
        read(tmp_path, text)
    message = str(raised.value)
    places = (
        "services.web.build",
        "services.web.privileged",
        "services.web.image",
        "services.web.ports",
        "volumes",
    )
    assert [place for place in places if place not in message] == []


@pytest.mark.parametrize(
    ("services", "message"),
    [
        ("{a: {image: i, depends_on: [b]}, b: {image: i, depends_on: [a]}}", "depend on each other: "),
        ("{a: {image: i, depends_on: [c]}}", "depend on c, which the file lacks"),
    ],
)
def test_services_that_have_no_order_are_refused(tmp_path: Path, services: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, f"services: {services}").order()


@pytest.mark.parametrize(
    ("test", "command"), [("[NONE]", None), ("[CMD-SHELL, a && b]", "a && b"), ("a && b", "a && b")]
)
def test_a_healthcheck_is_a_shell_command_or_none(tmp_path: Path, test: str, command: str | None) -> None:
    described = read(tmp_path, f"services: {{a: {{image: i, healthcheck: {{test: {test}}}}}}}")
    check = described.services["a"].healthcheck
    assert check is not None
    assert check.command == command


def test_an_unknown_healthcheck_or_duration_is_refused(tmp_path: Path) -> None:
    described = read(tmp_path, "services: {a: {image: i, healthcheck: {test: [RUN, x]}}}")
    check = described.services["a"].healthcheck
    assert check is not None
    with pytest.raises(ValueError, match="CMD or CMD-SHELL"):
        assert check.command
    with pytest.raises(ValueError, match="not a duration"):
        read(tmp_path, "services: {a: {image: i, healthcheck: {test: x, interval: soon}}}")
