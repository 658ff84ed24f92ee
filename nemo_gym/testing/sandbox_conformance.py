"""A check of a sandbox provider by the contract that servers rely on, for the provider's own tests.

def test_the_provider_keeps_the_contract() -> None:
    check_sandbox_provider(FolderProvider(), SandboxSpec(image="debian:12"))
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from nemo_gym.sandbox import AsyncSandbox, SandboxExecResult, SandboxSpec, SandboxStatus
from nemo_gym.sandbox.providers.class_checks import find_method_problems
from nemo_gym.sandbox.providers.protocols import SandboxProvider
from nemo_gym.sandbox.providers.specification import NO_EXIT_CODE

__all__ = ["check_sandbox_provider"]

_LIMIT_S = 120.0
"""Seconds for one check, on a machine that is busy."""
_BYTES = bytes(range(256)) * 300


def check_sandbox_provider(provider: SandboxProvider, spec: SandboxSpec | None = None) -> None:
    """Run commands and copy files in sandboxes of `provider`, which is closed at the end.

    `spec` names what its sandboxes need, such as an image with a shell and the usual small programs. Raises
    AssertionError with every promise that is broken.
    """
    broken = find_method_problems(type(provider)) or asyncio.run(
        _find_broken(provider, spec or SandboxSpec())
    )
    assert not broken, "the sandbox provider breaks its contract:\n" + "\n".join(broken)


async def _find_broken(provider: SandboxProvider, spec: SandboxSpec) -> list[str]:
    spec = replace(spec, env={**spec.env, "GIVEN": "spec", "BOTH": "spec"})
    broken = []
    try:
        for check in _CHECKS:
            try:
                async with (
                    asyncio.timeout(_LIMIT_S),
                    AsyncSandbox(provider, spec, owns_provider=False) as sandbox,
                ):
                    await check(await sandbox.start())
            except Exception as error:  # noqa: BLE001 - the boundary: the provider is of others
                reason = (
                    str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                )
                broken.append(f"- {check.__doc__} {reason}")
    finally:
        await provider.aclose()
    return broken


async def _find_place(sandbox: AsyncSandbox, command: str) -> str:
    """Return the folder in which commands run, without a slash at its end."""
    return ((await sandbox.exec(command)).stdout or "").strip().rstrip("/")


def _require(done: SandboxExecResult, wanted: SandboxExecResult) -> None:
    assert done == wanted, f"{done} is not {wanted}."


async def _check_results(sandbox: AsyncSandbox) -> None:
    """A command that fails is a result, with both outputs and its exit code."""
    done = await sandbox.exec("echo out; echo err >&2; exit 3")
    _require(done, SandboxExecResult("out\n", "err\n", 3))


async def _check_input_and_bytes(sandbox: AsyncSandbox) -> None:
    """A command has an empty input, and its output may be no text."""
    done = await sandbox.exec(r"cat; printf 'a\377b'")
    assert done.return_code == 0, f"{done} is no success."
    assert (done.stdout or "")[:1] + (done.stdout or "")[-1:] == "ab", f"{done.stdout!r} is not a, a byte, b."


async def _check_environment(sandbox: AsyncSandbox) -> None:
    """A command has the variables of the specification and its own, which come first."""
    done = await sandbox.exec('echo "$GIVEN $BOTH $OWN"', env={"BOTH": "own", "OWN": "own"})
    _require(done, SandboxExecResult("spec own own\n", "", 0))


async def _check_folders(sandbox: AsyncSandbox) -> None:
    """Files stay from one command to the next, and a command runs in `cwd`."""
    place = await _find_place(sandbox, "pwd && mkdir -p made")
    done = await sandbox.exec("pwd", cwd=f"{place}/made")
    _require(done, SandboxExecResult(f"{place}/made\n", "", 0))


async def _check_files(sandbox: AsyncSandbox) -> None:
    """A file is copied in, with its folder, and out, byte by byte; a missing one is an OSError."""
    place = await _find_place(sandbox, "pwd")
    with tempfile.TemporaryDirectory(prefix="nemo_gym_check_") as folder:
        source, target = Path(folder) / "in", Path(folder) / "new" / "out"
        source.write_bytes(_BYTES)
        await sandbox.upload(source, f"{place}/deep/er/file")
        done = await sandbox.exec(f"test -s {place}/deep/er/file")
        assert done.return_code == 0, f"a command does not find it: {done}."
        await sandbox.download(f"{place}/deep/er/file", target)
        assert target.read_bytes() == _BYTES, "the bytes that come back are others."
        try:
            await sandbox.download(f"{place}/missing", Path(folder) / "missing")
        except OSError:
            return
        raise AssertionError("there is no exception.")


async def _check_timeout(sandbox: AsyncSandbox) -> None:
    """A command over its timeout is a result `timeout`, and the next one runs."""
    done = await sandbox.exec("sleep 3600", timeout_s=1)
    assert (done.error_type, done.return_code) == ("timeout", NO_EXIT_CODE), f"{done} is no timeout."
    _require(await sandbox.exec("echo next"), SandboxExecResult("next\n", "", 0))


async def _check_cancelling(sandbox: AsyncSandbox) -> None:
    """A cancelled command ends with CancelledError, and the next one runs."""
    command = asyncio.create_task(sandbox.exec("sleep 3600", timeout_s=_LIMIT_S))
    await asyncio.sleep(0.5)
    command.cancel()
    (ended,) = await asyncio.gather(command, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError), f"it ends with {ended!r}."
    _require(await sandbox.exec("echo next"), SandboxExecResult("next\n", "", 0))


async def _check_neighbours(sandbox: AsyncSandbox) -> None:
    """One provider has several sandboxes at a time, with files of their own."""
    provider, spec = sandbox._provider, sandbox._spec
    await sandbox.exec("echo mine > own")
    async with AsyncSandbox(provider, spec, owns_provider=False) as other:
        await other.start()
        seen, done = await asyncio.gather(sandbox.exec("cat own"), other.exec("cat own"))
    _require(seen, SandboxExecResult("mine\n", "", 0))
    assert done.return_code != 0, "the other sandbox has the file."


async def _check_services(sandbox: AsyncSandbox) -> None:
    """A service outlives its command if that is asked for, or the ability is refused."""
    service = "(until test -e go; do sleep 0.1; done; touch served) > /dev/null 2>&1 &"
    try:
        await sandbox.exec(service, preserve_background_services=True)
    except NotImplementedError:
        return
    wait = "touch go; until test -e served; do sleep 0.1; done"
    _require(await sandbox.exec(wait, timeout_s=_LIMIT_S / 2), SandboxExecResult("", "", 0))


async def _check_user(sandbox: AsyncSandbox) -> None:
    """A command runs as the user that is asked for, or the user is refused with ValueError."""
    try:
        done = await sandbox.exec("id -u", user=0)
    except ValueError:
        return
    _require(done, SandboxExecResult("0\n", "", 0))


async def _check_end(sandbox: AsyncSandbox) -> None:
    """A closed sandbox runs nothing and is not running, and it can be closed again."""
    handle, provider = sandbox._require_handle(), sandbox._provider
    assert handle.provider_name == provider.name, f"its handle is of {handle.provider_name!r}."
    assert await provider.status(handle) is SandboxStatus.RUNNING, "it is not running at its start."
    await provider.close(handle)
    await provider.close(handle)
    status = await provider.status(handle)
    assert status is not SandboxStatus.RUNNING, f"its status is {status}."
    try:
        done = await provider.exec(handle, "true")
    except Exception:  # noqa: BLE001 - the kind is the provider's
        return
    assert done.error_type is not None, f"a command ends with {done}."


_CHECKS: tuple[Callable[[AsyncSandbox], Awaitable[None]], ...] = (
    _check_results,
    _check_input_and_bytes,
    _check_environment,
    _check_folders,
    _check_files,
    _check_timeout,
    _check_cancelling,
    _check_neighbours,
    _check_services,
    _check_user,
    _check_end,
)
