"""The class of a provider, checked before anything starts."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import AsyncMock

import pytest

from nemo_gym.sandbox import LocalProvider, SandboxHandle, SandboxStatus
from nemo_gym.sandbox.providers import SandboxProvider, get_provider_class
from nemo_gym.sandbox.providers.class_checks import (
    describe_options,
    find_method_problems,
    find_option_problems,
    list_options,
)
from tests.sandbox.recording_provider import RecordingProvider

if TYPE_CHECKING:
    from nemo_gym.nowhere import Client  # type: ignore[import-not-found]


class Empty:
    """A class without any method."""


class Inherited(SandboxProvider):
    """A class that has the protocol's own methods, which do nothing."""


class Abstract(LocalProvider, ABC):
    @abstractmethod
    async def close(self, handle: SandboxHandle) -> None: ...


class Blocking(RecordingProvider):
    def status(self, handle: SandboxHandle) -> SandboxStatus:  # type: ignore[override]
        return SandboxStatus.RUNNING


class WithoutUser(LocalProvider):
    async def exec(self, handle: SandboxHandle, command: str, *, cwd: str | None = None) -> Any:  # type: ignore[override]
        ...


class UnboundCheck(RecordingProvider):
    def find_missing(self, options: Mapping[str, Any]) -> str | None:
        return None


class AsyncCheck(RecordingProvider):
    @classmethod
    async def find_missing(cls, options: Mapping[str, Any]) -> str | None:
        return None


class CheckWithoutOptions(RecordingProvider):
    @classmethod
    def find_missing(cls) -> str | None:
        return None


@pytest.mark.parametrize("name", ["apptainer", "docker", "local", "podman"])
def test_the_providers_of_this_package_have_every_method(name: str) -> None:
    assert find_method_problems(get_provider_class(name)) == []


@pytest.mark.parametrize(
    ("provider_class", "problems"),
    [
        (lambda: RecordingProvider(), ["it is no class but <function"]),
        (Inherited, [f"it has no method `{name}`" for name in ("create", "exec", "upload_file")]),
        (Empty, [f"it has no method `{name}`" for name in ("create", "exec", "upload_file")]),
        (Abstract, ["its class Abstract is abstract and lacks close"]),
        (Blocking, ["its method `status` is not `async def`"]),
        (WithoutUser, ["its method `exec` does not take (handle, command, cwd, env, timeout_s, user): "]),
        (UnboundCheck, ["its method `find_missing` is not a class method"]),
        (AsyncCheck, ["its method `find_missing` is `async def`, and must not be"]),
        (CheckWithoutOptions, ["its method `find_missing` does not take (options): "]),
    ],
)
def test_a_method_that_cannot_be_called_is_named(provider_class: object, problems: list[str]) -> None:
    found = find_method_problems(provider_class)
    assert [each[: len(wanted)] for each, wanted in zip(found, problems, strict=False)] == problems


def logged(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Awaitable[Any]:
        return method(*arguments, **options)

    return call


class Decorated(RecordingProvider):
    status = logged(RecordingProvider.status)  # type: ignore[assignment]
    close = AsyncMock()


class Forwarding:
    """Passes every call on to another provider."""

    def __getattr__(self, name: str) -> Any:
        return getattr(RecordingProvider(), name)


@pytest.mark.parametrize("provider_class", [RecordingProvider, Decorated, Forwarding])
def test_methods_of_other_origins_are_methods(provider_class: type[Any]) -> None:
    assert find_method_problems(provider_class) == []


@dataclass
class Mounts:
    folders: list[str] = field(default_factory=list)
    read_only: bool = False


class Remote(RecordingProvider):
    def __init__(
        self,
        *,
        region: Literal["here", "there"],
        mounts: Mounts | Mapping[str, Any] | None = None,
        cache: Path | None = None,
        json: bool = False,
        client: Client | None = None,
        retries: int = 3,
        wait_s: float = 1,
        labels: Mapping[str, str] | None = None,
        other: Any = None,
    ) -> None: ...


class Typed(RecordingProvider):
    def __init__(self, *, mounts: Mounts | Mapping[str, Any] | None = None, retries: int = 3) -> None: ...


class Open(RecordingProvider):
    def __init__(self, endpoint: str, **options: Any) -> None: ...


@pytest.mark.parametrize(
    ("provider_class", "options"),
    [
        (Remote, {"region": "here", "json": True, "client": "any", "other": [1]}),
        (Typed, {"mounts": {"folders": ["/a"], "read_only": True}}),
        (Typed, {"mounts": None}),
        (Open, {"endpoint": "x", "anything": 1}),
        (RecordingProvider, {}),
        (LocalProvider, {"default_timeout_s": 60, "workspace_root": None, "shell": "/bin/sh"}),
        (LocalProvider, {"workspace_root": Path("/tmp")}),  # given by a program
    ],
)
def test_options_that_a_class_takes_are_no_problem(
    provider_class: type[Any], options: dict[str, Any]
) -> None:
    assert find_option_problems("mine", provider_class, options, ()) == []


@pytest.mark.parametrize(
    ("provider_class", "options", "problems"),
    [
        (
            Typed,
            {"retires": 1, "zzz": 2},
            {
                "no key 'box.mine.retires'.": "Did you mean 'retries'? The options are mounts, retries.",
                "no key 'box.mine.zzz'.": "The options are mounts, retries.",
            },
        ),
        (
            Typed,
            {"mounts": {"folder": ["/a"], "read_only": "no"}},
            {
                "box.mine.mounts.read_only must be true or false, not 'no'.": "Write true or false.",
                "'box.mine.mounts.folder'": "Did you mean 'folders'? The options are folders, read_only.",
            },
        ),
        (Typed, {"retries": "3"}, {"box.mine.retries must be a whole number, not '3'.": "Write a number"}),
        (Typed, {"retries": None}, {"box.mine.retries must be a whole number": ""}),
        (Typed, {"mounts": "/a"}, {"box.mine.mounts": ""}),
        (Open, {}, {"box.mine.endpoint is required.": ""}),
        (Remote, {}, {"box.mine.region is required.": ""}),
        (Remote, {"region": "here", "wait": 2}, {"no key 'box.mine.wait'.": "Did you mean 'wait_s'?"}),
        (RecordingProvider, {"x": 1}, {"no key 'box.mine.x'.": "The options are broken."}),
        (LocalProvider, {"concurrency": 0}, {"concurrency must be greater than 0, not 0.": ""}),
        (LocalProvider, {"memory_mib": -1}, {"memory_mib must be greater than 0, not -1.": ""}),
        (
            get_provider_class("docker"),
            {"exec": {"concurrency": "x"}, "probe": {"timeout": 1}},
            {
                "exec.concurrency must be a whole number, not 'x'.": "",
                "no key 'box.mine.probe.timeout'.": "Did you mean 'timeout_s'?",
            },
        ),
    ],
)
def test_every_wrong_option_is_named_with_the_right_ones(
    provider_class: type[Any], options: dict[str, Any], problems: dict[str, str]
) -> None:
    found = find_option_problems("mine", provider_class, options, ("box", "mine"))
    assert len(found) == len(problems)
    for problem, (message, remedy) in zip(found, problems.items(), strict=True):
        assert message in problem.message
        assert (problem.remedy or "").startswith(remedy)


def test_the_options_are_listed_in_the_order_of_the_signature() -> None:
    assert list_options(Typed) == ["mounts", "retries"]
    assert describe_options(["a", "b"]) == "The options are a, b."
    assert describe_options([]) == ""
