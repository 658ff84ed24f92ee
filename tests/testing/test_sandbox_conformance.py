"""The check of a sandbox provider finds every promise that is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sandbox import LocalProvider, SandboxExecResult, SandboxHandle, SandboxSpec, SandboxStatus
from nemo_gym.testing import sandbox_conformance
from nemo_gym.testing.sandbox_conformance import check_sandbox_provider
from tests.sandbox.recording_provider import RecordingProvider


def find_broken(provider: Any, spec: SandboxSpec | None = None) -> list[str]:
    """Return the lines of the report without its first."""
    with pytest.raises(AssertionError, match="breaks its contract") as raised:
        check_sandbox_provider(provider, spec)
    return str(raised.value).splitlines()[1:]


def test_the_local_provider_keeps_the_contract() -> None:
    check_sandbox_provider(LocalProvider())


class Careless(LocalProvider):
    """Breaks many promises in ways that a first command does not show."""

    async def exec(self, handle: SandboxHandle, command: str, **options: Any) -> SandboxExecResult:
        if not handle.raw.is_open:
            return SandboxExecResult("", "", 0)
        timeout_s = options["timeout_s"]
        done = await super().exec(handle, f"{{ {command}\n}} 2>&1", timeout_s=timeout_s)
        if done.error_type == "timeout":
            raise TimeoutError("the command takes too long")
        return done

    async def exec_with_background_services(
        self, handle: SandboxHandle, command: str, *, cwd: str | None = None, timeout_s: float | None = None
    ) -> SandboxExecResult:
        return SandboxExecResult(None, "there is no room", 1)

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None:
        """Copy nothing."""

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        return SandboxStatus.RUNNING


def test_every_broken_promise_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_conformance, "_LIMIT_S", 10.0)
    broken = find_broken(Careless())
    assert [line.partition(". ")[0] for line in broken] == [
        "- A command that fails is a result, with both outputs and its exit code",
        "- A command has the variables of the specification and its own, which come first",
        "- Files stay from one command to the next, and a command runs in `cwd`",
        "- A file is copied in, with its folder, and out, byte by byte; a missing one is an OSError",
        "- A command over its timeout is a result `timeout`, and the next one runs",
        "- A service outlives its command if that is asked for, or the ability is refused",
        "- A command runs as the user that is asked for, or the user is refused with ValueError",
        "- A closed sandbox runs nothing and is not running, and it can be closed again",
    ]
    assert broken[4].endswith("TimeoutError: the command takes too long")
    assert broken[-1].endswith("its status is running.")


def test_a_provider_that_does_nothing_is_found_in_every_check() -> None:
    provider = RecordingProvider()
    assert len(find_broken(provider)) == len(sandbox_conformance._CHECKS) - 1, "it may refuse services"
    assert provider.calls[-1] == "aclose"


def test_a_provider_without_sandboxes_is_told_why_each_time() -> None:
    broken = find_broken(LocalProvider(), SandboxSpec(image="debian:12"))
    assert len(broken) == len(sandbox_conformance._CHECKS)
    assert all("does not support: image" in line for line in broken)


def test_a_class_with_too_few_methods_is_not_tried() -> None:
    assert find_broken(object())[0] == "it has no method `create`"
