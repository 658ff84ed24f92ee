"""The CPU that the record of a durable attempt adds to a model call, and the rate of the whole command with records.

`command` is `python -m perf e2e` with `+durability=process` and without it by turns, in the order off, process,
process, off, so that what other programs of the machine do meets both. Its ratios are of means over two collections.
An instant engine shows the whole cost of the records; with an engine that takes time, the number in flight limits the
rate.

For `record`, the layer that records is called around a handler that answers at once with an engine's recorded reply:
no socket, no engine, no model server. Rollouts have two calls, as those of the command, or 20. The conversation grows
by a tool call a turn, as in a rollout; a call's two lines have `line_bytes` in all. Every attempt gets the folder of an
earlier one, as in a long run. `more_than_gateway_cpu_us` is the part that the record of the gateway does not need
already: both compare a request with the earlier ones. `files_cpu_us` is the floor: the same system calls with the same
bytes, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from pydantic import Field
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.cli.command import Keys
from nemo_gym.engines.attempts.calls import AttemptCalls
from nemo_gym.engines.gateway.requests import drop_markers
from nemo_gym.engines.record.deltas import RequestIndex, RequestParts
from nemo_gym.engines.record.tape import EngineReplyKept, current_tape
from nemo_gym.rollouts.output.attempt_records import AttemptRecords
from nemo_gym.rows.identity import RolloutId
from nemo_gym.serving.durable.names import AttemptName, new_run
from nemo_gym.serving.durable.runs import Durability, DurableRun
from nemo_gym.transport.context import RequestContext, current_context
from nemo_gym.transport.memory import collect_reply
from nemo_gym.transport.request_body import WholeBody
from perf import e2e
from perf.measure import Figures, median_of, tell

_COMPARED = ("rollouts_per_s", "collecting_rollouts_per_s", "cpu_ms")
_TURNS = 2, 20
_IN_FLIGHT, _OTHER_RUN = 64, "d0123456789ab"
_TEXT = "A tool has printed what it found in the files of the task. " * 40
_SCOPE: Scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}


class BenchKeys(Keys):
    calls: int = Field(2_000, ge=20, description="Calls in each measurement of the record.")
    command_rollouts: int = Field(
        4_000, ge=e2e.REPEATS, description="Rollouts of each command; a multiple of 4."
    )
    latencies: list[float] = Field(
        [0.0, 0.5], description="Seconds that the command's engine takes an answer."
    )
    in_flight: int = Field(256, ge=1, description="Maximum number of the command's rollouts in flight.")


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return the medians of `runs` measurements."""
    return {
        "record": {
            f"{turns} calls a rollout": median_of(runs, partial(_measure, turns, keys.calls // turns))
            for turns in _TURNS
        },
        "command": {
            f"engine {latency_s:g} s": median_of(runs, partial(_compare_commands, keys, latency_s))
            for latency_s in keys.latencies
        },
    }


def _compare_commands(keys: BenchKeys, latency_s: float) -> Figures:
    load = e2e.BenchKeys(rollouts=keys.command_rollouts, in_flight=keys.in_flight)
    found: dict[str, list[Figures]] = {"off": [], "process": []}
    for durability in ("off", "process", "process", "off"):
        tell(f"the whole command, engine {latency_s:g} s, +durability={durability}")
        found[durability].append(
            e2e.collect_once("process", load, f"+durability={durability}", latency_s=latency_s)
        )
    off, process = (
        {name: statistics.mean(figures[name] for figures in found[each]) for name in _COMPARED}
        for each in ("off", "process")
    )
    return {
        "off": off,
        "process": process,
        "of_the_rate_without_records": process["rollouts_per_s"] / off["rollouts_per_s"],
        "of_the_cpu_without_records": off["cpu_ms"] / process["cpu_ms"],
    }


def _measure(turns: int, rollouts: int) -> Figures:
    with tempfile.TemporaryDirectory() as name:
        folder, calls = Path(name), AttemptCalls("policy_model", "policy_model.0")
        records = AttemptRecords(folder / "recorded", new_run(), has_calls_alone=True)
        calls.runs[records.run] = DurableRun(records.run, records.folder, Durability.PROCESS)

        def play(app: ASGIApp, kept: AttemptRecords | None, numbers: range = range(rollouts)) -> float:
            return asyncio.run(_play(app, kept, turns, numbers))

        play(_layered(calls), records, range(rollouts, rollouts + _IN_FLIGHT))
        size = sum(path.stat().st_size for path in records.folder.rglob("*.jsonl")) / _IN_FLIGHT / turns
        recorded = play(_layered(calls), records)
        alone, compared = play(_answer, None), play(_compare_requests(), None)
        files = _repeat_system_calls(folder, turns, rollouts, round(size / 2))
    count = rollouts * turns
    return {
        "more_cpu_us": 1e6 * (recorded - alone) / count,
        "more_than_gateway_cpu_us": 1e6 * (recorded - compared) / count,
        "files_cpu_us": 1e6 * files / count,
        "line_bytes": size,
    }


def _repeat_system_calls(folder: Path, turns: int, rollouts: int, size: int) -> float:
    """Return the CPU seconds of what the records do with files, in folders that exist already."""
    line, names = b"x" * size, [f"{folder}/{number}" for number in range(_IN_FLIGHT)]
    for name in names:
        Path(name).mkdir()
        Path(name, "calls").write_bytes(line)
    began = time.process_time()
    for rollout in range(rollouts):
        name = f"{folder}/{rollout}.0.a0"
        os.rename(names[rollout % _IN_FLIGHT], name)  # noqa: PTH104 - as the records do
        names[rollout % _IN_FLIGHT] = name
        os.listdir(name)  # noqa: PTH208
        descriptor = os.open(f"{name}/calls", os.O_RDONLY | os.O_CLOEXEC)
        os.read(descriptor, 30)
        os.close(descriptor)
        for turn in range(turns):
            descriptor = os.open(f"{name}/calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
            if turn == 0:
                os.lseek(descriptor, 0, os.SEEK_END)
                os.ftruncate(descriptor, 1)
            os.write(descriptor, line)
            os.write(descriptor, line)
            os.close(descriptor)
    return time.process_time() - began


def _layered(calls: AttemptCalls) -> ASGIApp:
    async def layered(scope: Scope, receive: Receive, send: Send) -> None:
        await calls(_answer, scope, receive, send)

    return layered


def _compare_requests() -> ASGIApp:
    """A handler that does with a request what the record of the gateway does, without writing it."""
    indices: dict[str, RequestIndex] = {}

    async def compare(scope: Scope, receive: Receive, send: Send) -> None:
        assert isinstance(receive, WholeBody)
        context = current_context.get()
        assert context is not None
        assert receive.value is not None
        index = indices.setdefault(context.session, RequestIndex())
        parts = RequestParts.from_body("chat", drop_markers(receive.value))
        index.build_delta(parts)
        index.keep(str(len(parts.items)), parts.digests)
        await collect_reply(_answer, scope, receive)
        await _answer(scope, receive, send)

    return compare


async def _play(app: ASGIApp, records: AttemptRecords | None, turns: int, numbers: range) -> float:
    """Return the CPU seconds of rollouts, of which each is settled when some others have begun."""
    open_rollouts = deque[RolloutId]()
    began = time.process_time()
    for number in numbers:
        identity = RolloutId(number, 0)
        name = records.name_next(identity) if records is not None else AttemptName(_OTHER_RUN, *identity, 0)
        open_rollouts.append(identity)
        token = current_context.set(RequestContext(str(name), None))
        try:
            for body in _BODIES[:turns]:
                await collect_reply(app, _SCOPE, WholeBody(b"", _never, body))
        finally:
            current_context.reset(token)
        while records is not None and len(open_rollouts) > (0 if number == numbers[-1] else _IN_FLIGHT - 1):
            records.release(open_rollouts.popleft())
    return time.process_time() - began


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    tape = current_tape.get()
    if tape is not None:
        tape.add(EngineReplyKept("/v1/chat/completions", 200, _REPLY, "http://engine"))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": _REPLY})


async def _never() -> Any:
    raise RuntimeError("the body is whole")


def _build_bodies() -> list[dict[str, Any]]:
    """The requests of a rollout, each of which goes on from the one before."""
    bodies: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = [{"role": "user", "content": _TEXT}]
    for turn in range(max(_TURNS)):
        bodies.append({"model": "policy", "messages": [*messages]})
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": f"{turn} {_TEXT}"},
        ]
    return bodies


def _build_reply() -> bytes:
    message = {"role": "assistant", "content": _TEXT, "token_ids": [*range(60_000, 60_200)]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 900, "completion_tokens": 200, "total_tokens": 1100}
    return orjson.dumps(
        {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage}
    )


_BODIES, _REPLY = _build_bodies(), _build_reply()
