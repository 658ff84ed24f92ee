"""Calls of a program: output, input, timeout, and processes that outlive them."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.providers.command_line import CommandLine, find_program
from tests.waiting import is_running, until, until_gone

SHELL = CommandLine("/bin/sh")


async def test_a_call_has_output_input_variables_and_an_exit_code() -> None:
    script = 'cat; echo "$NAME" >&2; exit 3'
    done = await SHELL.run("-c", script, timeout_s=30, stdin=b"in\xff", variables={"NAME": "gym"})
    assert done.message == "gym"
    assert done == (3, "in\ufffd", "gym\n", None)
    assert (await SHELL.run("-c", "cat", timeout_s=None)).stdout == ""


async def test_a_call_may_have_a_bound_on_its_output() -> None:
    program = CommandLine("/usr/bin/yes")
    assert (await program.run(timeout_s=30, max_output_bytes=1000)).error == "output_exceeded"


async def test_files_are_input_and_output(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\x00\xff")
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        done = await SHELL.run("-c", "cat", timeout_s=30, stdin=source, stdout=target)
    assert (done.stdout, (tmp_path / "out").read_bytes()) == ("", b"\x00\xff")


async def test_a_process_that_outlives_the_call_does_not_delay_it(tmp_path: Path) -> None:
    script = f"setsid sh -c 'echo $$ > {tmp_path}/pid; sleep 600' & echo started"
    done = await SHELL.run("-c", script, timeout_s=30)
    assert (done.stdout, done.error) == ("started\n", None)
    await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("way", ["timeout", "cancel"])
async def test_descendants_end_with_a_call_that_is_given_up(tmp_path: Path, way: str) -> None:
    script = f"sh -c 'echo $$ > {tmp_path}/pid; sleep 600'; true"
    call = asyncio.create_task(SHELL.run("-c", script, timeout_s=2 if way == "timeout" else 600))
    await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    if way == "timeout":
        assert (await call).error == "timeout"
    else:
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await until_gone(int((tmp_path / "pid").read_text()))


async def test_calls_wait_for_a_free_slot(tmp_path: Path) -> None:
    shell = CommandLine("/bin/sh", concurrency=1)
    first = asyncio.create_task(
        shell.run(
            "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; echo 1 >> {tmp_path}/log", timeout_s=60
        )
    )
    await asyncio.sleep(0)
    second = asyncio.create_task(shell.run("-c", f"echo 2 >> {tmp_path}/log", timeout_s=60))
    (tmp_path / "go").touch()
    await asyncio.gather(first, second)
    assert (tmp_path / "log").read_text() == "1\n2\n"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_call_leaves_no_descriptor() -> None:
    await SHELL.run("-c", "true", timeout_s=30)
    before = descriptors()
    await SHELL.run("-c", "sleep 600", timeout_s=0.1)
    with pytest.raises(FileNotFoundError):
        await CommandLine("/no/such/program").run(timeout_s=1)
    assert descriptors() == before


def test_a_missing_program_is_named_with_the_place_and_a_remedy(tmp_path: Path) -> None:
    assert find_program("sh").endswith("/sh")
    with pytest.raises(ConfigError, match=f"`sh`, which is not in {tmp_path}") as raised:
        find_program("sh", str(tmp_path))
    assert "Install sh" in (raised.value.failure.remedy or "")
