"""A host that breaks the protocol, dies or hangs: a typed failure each, and no process is left."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ForeignError, GymError
from nemo_gym.sources.foreign.process import HostProcess, HostProgram
from tests.sources.foreign.programs import copy_program, list_processes
from tests.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

OPENING = {"task": {"id": "env/0", "data": {}}, "seed": 3}
PATIENT_S = 120.0


@asynccontextmanager
async def opened(program: HostProgram) -> AsyncIterator[HostProcess]:
    host = await HostProcess.start(program, program.build_runner())
    try:
        await host.ask("open", OPENING, deadline_s=PATIENT_S)
        yield host
    finally:
        await host.close()


async def step(host: HostProcess, text: str, deadline_s: float = PATIENT_S) -> dict[str, Any]:
    return await host.ask("step", {"seat": 0, "text": text, "calls": []}, deadline_s=deadline_s)


async def find_nothing_left(folder: Path) -> None:
    await until(lambda: not list(list_processes(folder)))


async def test_an_attempt_is_played_by_messages(tmp_path: Path) -> None:
    program = copy_program(tmp_path)
    host = await HostProcess.start(program, program.build_runner())
    about = await host.ask("describe", {}, deadline_s=PATIENT_S)
    assert (about["name"], about["loop"]) == ("env", "ours")
    assert (await host.ask("open", OPENING, deadline_s=PATIENT_S))["observation"] == "seed 3"
    assert (await step(host, "finish"))["done"] is True
    assert await host.ask("close", {}, deadline_s=PATIENT_S)
    await host.close()
    await host.close()
    await find_nothing_left(tmp_path)


async def test_the_output_of_an_environment_is_no_message(tmp_path: Path) -> None:
    async with opened(copy_program(tmp_path)) as host:
        assert (await step(host, "print"))["observation"] == "print"
        assert (await step(host, "after"))["observation"] == "after"


BROKEN = {
    "garbage": "environment:host_protocol",
    "other_version": "environment:host_protocol",
    "flood": "environment:host_flooded",
    "half": "environment:host_died",
    "stop": "environment:host_silent",
    "raw_nan": "verifier:bad_reward",
    "ignore_signals": "environment:timeout",
    "die": "environment:host_died",
}
"""The causes that end a host, each with its failure."""
ANSWERED = {
    "long_answer": "environment:out_of_resources",
    "nan": "environment:environment_error",
    "text_reward": "verifier:bad_reward",
    "list_of_rewards": "verifier:bad_reward",
    "sleep": "environment:timeout",
    "leave": "environment:environment_error",
    "raise": "environment:environment_error",
    "fill_memory": "environment:out_of_resources",
}
"""The errors of one request."""


@pytest.mark.parametrize("text", BROKEN)
async def test_a_host_that_breaks_the_protocol_is_killed(text: str, tmp_path: Path) -> None:
    program = copy_program(tmp_path, beat_s=0.5 if text == "stop" else 5.0)
    deadline_s = 0.5 if text == "ignore_signals" else PATIENT_S
    async with opened(program) as host:
        with pytest.raises(GymError) as caught:
            await step(host, text, deadline_s)
        assert caught.value.failure.kind == BROKEN[text]
        assert not host.is_usable
        with pytest.raises(GymError) as again:
            await step(host, "after")
        assert again.value.failure.kind == BROKEN[text]
    await find_nothing_left(tmp_path)


@pytest.mark.parametrize("text", ANSWERED)
async def test_an_error_of_the_environment_is_a_typed_failure(text: str, tmp_path: Path) -> None:
    program = copy_program(tmp_path, memory_mib=512)
    async with opened(program) as host:
        with pytest.raises(GymError) as caught:
            await step(host, text, 0.5 if text == "sleep" else PATIENT_S)
        assert caught.value.failure.kind == ANSWERED[text]
    await find_nothing_left(tmp_path)


async def test_a_second_answer_to_a_request_ends_the_host(tmp_path: Path) -> None:
    async with opened(copy_program(tmp_path)) as host:
        await step(host, "twice")
        await until(lambda: not host.is_usable)
        with pytest.raises(ForeignError, match="not open"):
            await step(host, "after")


async def test_what_a_host_has_forked_ends_with_it(tmp_path: Path) -> None:
    async with opened(copy_program(tmp_path)) as host:
        before = host.count_processes()
        await step(host, "fork")
        assert host.count_processes() > before
    await find_nothing_left(tmp_path)


async def test_a_cancelled_request_ends_its_host(tmp_path: Path) -> None:
    async with opened(copy_program(tmp_path)) as host:
        asking = asyncio.create_task(step(host, "sleep"))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not host.is_usable
    await find_nothing_left(tmp_path)


async def test_an_environment_that_does_not_load_says_why(tmp_path: Path) -> None:
    program = copy_program(tmp_path, "unknown")
    with pytest.raises(ForeignError, match="there is no such environment"):
        await HostProcess.start(program, program.build_runner())
    await find_nothing_left(tmp_path)


async def test_a_start_that_hangs_has_an_end(tmp_path: Path) -> None:
    program = copy_program(tmp_path, "slow_start", start_timeout_s=0.5)
    with pytest.raises(ForeignError) as caught:
        await HostProcess.start(program, program.build_runner())
    assert caught.value.failure.code == "timeout"
    await find_nothing_left(tmp_path)


async def test_sixty_four_hosts_break_at_once(tmp_path: Path) -> None:
    program = copy_program(tmp_path, beat_s=2.0)
    runner = program.build_runner()
    modes = [text for text in {**BROKEN, **ANSWERED} if text not in ("fill_memory", "flood", "long_answer")]

    async def play(number: int) -> tuple[str, str]:
        text = modes[number % len(modes)]
        host = await HostProcess.start(program, runner)
        try:
            await host.ask("open", OPENING, deadline_s=PATIENT_S)
            await step(host, text, 2.0 if text in ("ignore_signals", "sleep") else PATIENT_S)
        except GymError as error:
            return text, error.failure.kind
        finally:
            await host.close()
        return text, "none"

    found = await asyncio.gather(*(play(number) for number in range(64)))
    expected = {**BROKEN, **ANSWERED}
    assert [(text, kind) for text, kind in found if kind != expected[text]] == []
    await find_nothing_left(tmp_path)
