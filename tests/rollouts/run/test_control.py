"""The control of a start: values and pauses that it takes over, and its record in files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.clock import pause
from nemo_gym.rollouts.control.run_control import RunControl
from nemo_gym.rollouts.control.verbs import ControlRequest, ControlVerb
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.run.stopping import Stop
from tests.rollouts.doubles import Agents, write_dataset
from tests.rollouts.run.test_collect import out, run

Drive = Callable[[RunControl], Coroutine[Any, Any, None]]


def serve_by(drive: Drive) -> Any:
    """Let `drive` control the run."""

    @asynccontextmanager
    async def serve(control: RunControl, _: Path) -> AsyncIterator[None]:
        driving = asyncio.create_task(drive(control))
        try:
            yield
        finally:
            await driving

    return serve


async def ask(control: RunControl, verb: ControlVerb, **body: Any) -> dict[str, Any]:
    return await control.handle(verb, ControlRequest(**body, by="a test"))


async def wait_for_a_row(control: RunControl) -> None:
    """Return when the run has a row: one without any is begun anew and not resumed."""
    while not control.describe()["counts"]["settled"]:  # noqa: ASYNC110 - the run has no event for it
        await asyncio.sleep(0.01)


async def test_requests_are_in_the_events_the_summary_and_the_manifest(tmp_path: Path) -> None:
    async def retune(control: RunControl) -> None:
        await ask(control, ControlVerb.SET, num_samples_in_parallel=2)

    write_dataset(tmp_path / "tasks.jsonl", 40)
    summary = await run(tmp_path, agents=Agents(seconds=0.01), serve=serve_by(retune))
    (event,) = summary.control
    assert (event["verb"], event["by"], event["changes"]) == (
        "set",
        "a test",
        ["num_samples_in_parallel: 64 -> 2"],
    )
    assert orjson.loads(out(tmp_path, "_events.jsonl").read_bytes()) == event
    assert orjson.loads(out(tmp_path, "_run.json").read_bytes())["starts"][-1]["control"] == [event]
    assert summary.to_json()["control"] == [event]


async def test_a_run_that_nobody_controls_has_no_events(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 2)
    summary = await run(tmp_path)
    assert not out(tmp_path, "_events.jsonl").exists()
    assert "control" not in summary.to_json()
    assert "control" not in orjson.loads(out(tmp_path, "_run.json").read_bytes())["starts"][-1]


async def test_a_resumed_run_goes_on_with_the_values_that_were_set(tmp_path: Path) -> None:
    async def retune_and_drain(control: RunControl) -> None:
        await wait_for_a_row(control)
        await ask(control, ControlVerb.SET, num_samples_in_parallel=1, max_attempts=7)
        await ask(control, ControlVerb.DRAIN)

    write_dataset(tmp_path / "tasks.jsonl", 2000)
    first = await run(tmp_path, agents=Agents(seconds=0.01), serve=serve_by(retune_and_drain))
    assert (first.end, first.exit_code) == ("drained", 3)
    agents = Agents()
    seen: list[dict[str, Any]] = []

    async def look(control: RunControl) -> None:
        seen.append(control.describe())

    second = await run(tmp_path, agents=agents, existing=Existing.RESUME, serve=serve_by(look))
    assert (second.exit_code, agents.most_in_flight) == (0, 1)
    assert (seen[0]["num_samples_in_parallel"], seen[0]["max_attempts"], seen[0]["phase"]) == (
        1,
        7,
        "running",
    )
    assert any("num_samples_in_parallel is 1, as it was set" in note for note in second.notes)


@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_pause_holds_if_the_run_was_killed_during_it(is_killed: bool, tmp_path: Path) -> None:
    stop = Stop()

    async def pause_and_end(control: RunControl) -> None:
        await wait_for_a_row(control)
        await ask(control, ControlVerb.PAUSE)
        stop.interrupt()

    write_dataset(tmp_path / "tasks.jsonl", 2000)
    await run(tmp_path, agents=Agents(seconds=0.01), serve=serve_by(pause_and_end), stop=stop)
    assert pause.since is None, "the clocks run again"
    if is_killed:
        manifest = out(tmp_path, "_run.json")
        told = orjson.loads(manifest.read_bytes())
        del told["starts"][-1]["end"]
        manifest.write_bytes(orjson.dumps(told))
    seen: list[str] = []

    async def look(control: RunControl) -> None:
        seen.append(control.describe()["phase"])
        await ask(control, ControlVerb.RESUME)

    summary = await run(tmp_path, existing=Existing.RESUME, serve=serve_by(look))
    assert (summary.exit_code, seen) == (0, ["paused" if is_killed else "running"])
    assert any("stays paused" in note for note in summary.notes) is is_killed
