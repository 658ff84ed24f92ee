"""Providers that servers name and this machine lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config.servers import ServerInstance
from nemo_gym.sandbox.availability import find_missing_providers, require_providers

BLOCKS: dict[str, Any] = {
    "sandbox": {"local": {}, "default_metadata": {"team": "gym"}},
    "away": {"opensandbox": {"connection": {}}},
    "odd": {"local": {"shel": "/bin/sh"}},
    "closed": {"docker": {"create": {"netwrk": "none"}}},
}


def server(provider: Any, name: str = "agent", **options: Any) -> ServerInstance:
    config = {"sandbox_provider": provider, **options} if provider is not None else {}
    return ServerInstance(name, "responses_api_agents", "harness", Path("/"), "app.py", config, None)


@pytest.mark.parametrize("provider", [None, "sandbox", {"local": {}}])
def test_a_provider_that_is_here_is_no_problem(provider: Any) -> None:
    assert find_missing_providers([server(provider)], BLOCKS) == []


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("away", "agent: there is no sandbox provider 'opensandbox' here"),
        ({"e2b": {}}, "agent: there is no sandbox provider 'e2b' here"),
        ("nowhere", "names the top-level block 'nowhere', which does not exist"),
        ("odd", "options of the sandbox provider 'local' are wrong"),
        ("closed", "'docker' cannot run"),
    ],
)
def test_a_missing_provider_is_named_with_a_remedy(
    provider: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (problem,) = find_missing_providers([server(provider)], BLOCKS)
    assert message in problem.message
    assert problem.remedy


def test_every_server_with_a_missing_provider_is_named_at_once() -> None:
    servers = [server("away", "one"), server("sandbox", "two"), server("away", "three")]
    with pytest.raises(ConfigErrors) as raised:
        require_providers(servers, BLOCKS)
    assert [problem.message.partition(":")[0] for problem in raised.value.problems] == ["one", "three"]


ENGINE = """#!/bin/sh
[ "$1 $2" != "image inspect" ] && exit 0
[ "$5" = localhost/here:1 ] && exit 0
echo "$5: image not known" >&2; exit 125
"""


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_an_image_that_is_not_here_is_named_with_the_command_that_gets_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text(ENGINE)
    (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    servers = [
        server({name: {}}, image, sandbox_image=f"localhost/{image}:1") for image in ("here", "there", "away")
    ]
    there, away = find_missing_providers(servers, {})
    assert (
        there.message
        == f"there: {name} has no image 'localhost/there:1' here: localhost/there:1: image not known"
    )
    assert f"`{name} pull localhost/there:1`" in (there.remedy or "")
    assert away.message.startswith("away: ")


def test_a_provider_without_images_does_not_look_for_one() -> None:
    assert find_missing_providers([server("sandbox", sandbox_image="localhost/any:1")], BLOCKS) == []
