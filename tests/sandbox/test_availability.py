"""Providers that servers name and this machine lacks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config.servers import ServerInstance
from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.availability import find_missing_providers, require_provider, require_providers
from nemo_gym.sandbox.providers import registry
from tests.sandbox.recording_provider import RecordingProvider

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
        ("closed", "There is no key 'closed.docker.create.netwrk'"),
        ({"docker": {}}, "'docker' cannot run: The sandbox provider 'docker' needs the program `docker`"),
        ({"local": [1]}, "the options of local must be a mapping, not [1]"),
        ({"local": {}, "default_metadata": "x"}, "default_metadata must be a mapping, not 'x'"),
    ],
)
def test_a_missing_provider_is_named_with_a_remedy(
    provider: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (problem,) = find_missing_providers([server(provider)], BLOCKS)
    assert message in problem.message
    assert problem.remedy


class Checked(RecordingProvider):
    """A provider of others, whose check ends with `mistake`."""

    mistake: Exception | str | None = None

    def __init__(self, *, network: str = "none", **options: str) -> None: ...

    @classmethod
    def find_missing(cls, options: Mapping[str, Any]) -> str | None:
        if isinstance(cls.mistake, Exception):
            raise cls.mistake
        return cls.mistake


@pytest.mark.parametrize(
    ("mistake", "message", "remedy"),
    [
        (None, None, None),
        ("there is no bwrap here", "'mine' cannot run: there is no bwrap here", "Put that right, or set"),
        (
            ValueError("network is none"),
            "'mine' refuses its options: ValueError: network is none (",
            "Correct",
        ),
        (
            TypeError("no lan"),
            "refuses its options: TypeError: no lan (",
            "Correct them. The options are netw",
        ),
        (
            KeyError("HOME"),
            "'mine' cannot be checked: KeyError: 'HOME' (",
            "Correct its check, or set",
        ),
        (
            OSError("no daemon"),
            "'mine' cannot be checked: OSError: no daemon (",
            "Correct its check",
        ),
        (ConfigError("No key.", code="key", remedy="Set KEY."), "agent: No key.", "Set KEY."),
    ],
)
def test_a_check_of_others_is_a_problem_and_never_a_traceback(
    mistake: Exception | str | None, message: str | None, remedy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_registered", {"mine": Checked})
    monkeypatch.setattr(Checked, "mistake", mistake)
    found = find_missing_providers([server({"mine": {"lan": 1}})], {})
    assert len(found) == (message is not None)
    for problem in found:
        assert message is not None
        assert message in problem.message
        assert (problem.remedy or "").startswith(remedy or "")
        assert "mine)" not in (problem.remedy or ""), "a provider is no remedy for itself"


class WithImages(RecordingProvider):
    @classmethod
    def find_missing_image(cls, image: str) -> str | None:
        raise OSError("no registry")


def test_a_failed_check_of_an_image_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {"mine": WithImages})
    (problem,) = find_missing_providers([server({"mine": {}}, sandbox_image="x")], {})
    assert "agent: the sandbox provider 'mine' cannot be checked: OSError: no registry (" in problem.message


def test_a_class_that_is_no_provider_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {"mine": ServerInstance})
    (problem,) = find_missing_providers([server({"mine": {}})], {})
    assert "the sandbox provider 'mine' cannot be used: it has no method `create`; " in problem.message


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "nemo_gym.nowhere:Provider",
            "cannot be imported: ModuleNotFoundError: No module named 'nemo_gym.nowhere'",
        ),
        ("nemo_gym.sandbox:Provider", "cannot be imported: AttributeError: module 'nemo_gym.sandbox' has no"),
    ],
)
def test_a_package_that_cannot_be_imported_is_named(
    target: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    information = tmp_path / "broken-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{registry.ENTRY_POINT_GROUP}]\nbroken = {target}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (problem,) = find_missing_providers([server({"broken": {}})], {})
    assert f"agent: the sandbox provider 'broken' {message}" in problem.message
    assert problem.remedy == "Correct its package, or install it anew."


def test_all_wrong_options_are_named_at_once() -> None:
    block = {"local": {"shel": "sh", "concurrency": "x", "max_files": 0}}
    messages = [each.message for each in find_missing_providers([server(block)], {})]
    wrong = "agent: the options of the sandbox provider 'local' are wrong: "
    assert messages == [
        f"{wrong}sandbox_provider.local.concurrency must be a whole number, not 'x'.",
        f"{wrong}sandbox_provider.local.max_files must be greater than 0, not 0.",
        f"{wrong}There is no key 'sandbox_provider.local.shel'.",
    ]


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


def test_a_provider_alone_is_checked_by_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_provider({"local": {}})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigErrors, match="'docker' cannot run"):
        require_provider({"docker": {}})
