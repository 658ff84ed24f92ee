"""A collector that is several processes, and a run that remains one."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts import disk as disks
from nemo_gym.rollouts.channel import Channel
from nemo_gym.rollouts.collect import collect
from nemo_gym.rollouts.collector import Limits
from nemo_gym.rollouts.dataset import DatasetFile, read_lines
from nemo_gym.rollouts.discovery import Gym
from nemo_gym.rollouts.disk import Disk
from nemo_gym.rollouts.files import RunFiles
from nemo_gym.rollouts.identity import FinishedRollouts, RolloutId
from nemo_gym.rollouts.journal import Existing
from nemo_gym.rollouts.packed_file import append_to, tail_of
from nemo_gym.rollouts.plan import PlanSettings, Share
from nemo_gym.rollouts.settings import CollectSettings
from nemo_gym.rollouts.shard_process import Ended, ShardSetup, Told, serve
from nemo_gym.rollouts.stopping import Stop
from nemo_gym.rollouts.summary import CollectSummary
from nemo_gym.transport import InMemoryTransport
from tests.rollouts.doubles import AGENT, identities, read_rows, write_dataset


class AgentServer:
    """An agent on a socket. A task whose number is in `hanging` is never answered; in `failing`, by an error."""

    def __init__(
        self, *, hanging: frozenset[int] = frozenset(), failing: frozenset[int] = frozenset()
    ) -> None:
        self.hanging = hanging
        self.failing = failing
        self.asked = 0
        self.url = ""
        self._in_flight = 0
        self._changed = asyncio.Condition()

    async def in_flight(self, count: int) -> None:
        """Wait until so many requests hang."""
        async with asyncio.timeout(30), self._changed:
            await self._changed.wait_for(lambda: self._in_flight == count)

    async def _count(self, change: int) -> None:
        async with self._changed:
            self._in_flight += change
            self._changed.notify_all()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = (
                    next(
                        int(line.split(b":")[1])
                        for line in head.lower().split(b"\r\n")
                        if line.startswith(b"content-length")
                    )
                    if b"content-length" in head.lower()
                    else 0
                )
                body = await reader.readexactly(length)
                status, answer = await self.answer(head.split()[1], body, reader)
                writer.write(
                    b"HTTP/1.1 %d OK\r\ncontent-length: %d\r\n\r\n%b" % (status, len(answer), answer)
                )
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def answer(self, path: bytes, body: bytes, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        if path != b"/run":
            return 200, b"{}"
        self.asked += 1
        row: dict[str, Any] = orjson.loads(body)
        if row["answer"] in self.hanging:
            await self._count(1)
            try:
                await reader.readexactly(1)  # until the caller goes away
            finally:
                await self._count(-1)
        if row["answer"] in self.failing:
            return 418, b"no"
        await asyncio.sleep(0.005)
        return 200, orjson.dumps(row | {"response": {"output": []}, "reward": float(row["answer"] % 2)})


@asynccontextmanager
async def serving(agent: AgentServer) -> AsyncIterator[Gym]:
    server = await asyncio.start_server(agent.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    agent.url = f"http://127.0.0.1:{port}"
    try:
        yield Gym({AGENT: {"responses_api_agents": {"simple": {"host": "127.0.0.1", "port": port}}}})
    finally:
        server.close()


async def run(gym: Gym, folder: Path, processes: int, **options: Any) -> CollectSummary:
    stop, attempter = options.pop("stop", None), options.pop("attempter", None)
    settings = CollectSettings(
        datasets=(DatasetFile(folder / "tasks.jsonl", num_repeats=2),),
        output=options.pop("output", folder / "out.jsonl"),
        processes=processes,
        environment_metrics_max_rows=0,
        **options,
    )
    caller = gym.caller()
    try:
        return await collect(settings, caller, gym, stop=stop, attempter=attempter)
    finally:
        if gym.transport is None:
            await caller.transport.close()


async def test_rows_metrics_and_failures_are_those_of_one_process(tmp_path: Path) -> None:
    written, results = [], []
    for name, processes in (("one", 1), ("three", 3)):
        folder = tmp_path / name
        folder.mkdir()
        write_dataset(folder / "tasks.jsonl", 30)
        async with serving(AgentServer(failing=frozenset({7}))) as gym:
            summary = await run(gym, folder, processes, limits=Limits(8, max_attempts=1))
        assert (summary.exit_code, summary.tally.scored, summary.tally.failed) == (3, 58, 2)
        rows = sorted(read_rows(folder / "out.jsonl"), key=lambda row: identities([row]))
        written.append((rows, read_rows(folder / "out_failures.jsonl")))
        results.append(orjson.loads((folder / "out_aggregate_metrics.json").read_bytes()))
    assert written[0] == written[1]
    assert results[0] == results[1]


async def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 12)
    async with serving(AgentServer(failing=frozenset({3, 4}))) as gym:
        await run(gym, tmp_path, 2, limits=Limits(max_attempts=1))
    agent = AgentServer()
    async with serving(agent) as gym:
        summary = await run(gym, tmp_path, 3, existing=Existing.RESUME)
    assert (summary.exit_code, summary.tally.finished_before, agent.asked) == (0, 20, 4)
    assert len(set(identities(read_rows(tmp_path / "out.jsonl")))) == 24


async def test_an_interrupt_cancels_what_hangs_down_to_the_agent(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 4)
    agent, stop = AgentServer(hanging=frozenset(range(4))), Stop()

    async def interrupt() -> None:
        await agent.in_flight(8)
        stop.interrupt()
        stop.interrupt()

    async with serving(agent) as gym:
        interrupting = asyncio.create_task(interrupt())
        summary = await run(gym, tmp_path, 2, stop=stop)
        await interrupting
        assert (summary.end, summary.exit_code, summary.tally.cancelled) == ("interrupted", 3, 8)
        async with asyncio.timeout(30):
            await agent.in_flight(0)


async def test_the_share_of_failures_is_that_of_the_whole_run(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 200)
    async with serving(AgentServer(failing=frozenset(range(0, 200, 2)))) as gym:
        rules = {"max_failed_fraction": 0.1, "stop_after_identical_failures": 0}
        summary = await run(gym, tmp_path, 2, limits=Limits(8, max_attempts=1), **rules)
    assert (summary.end, summary.exit_code) == ("too_many_failures", 1)
    assert summary.tally.failed > 40
    assert summary.tally.failed + summary.tally.scored < 400


async def test_a_process_that_is_killed_ends_the_run_and_a_resume_completes_it(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 40)
    agent = AgentServer(hanging=frozenset({39}), failing=frozenset({2, 3}))

    async def kill_one() -> None:
        await agent.in_flight(2)
        children = psutil.Process().children()
        os.kill(children[-1].pid, signal.SIGKILL)

    async with serving(agent) as gym:
        killing = asyncio.create_task(kill_one())
        broken = await run(gym, tmp_path, 2, limits=Limits(8, max_attempts=1, drain_s=0.1))
        await killing
    failed = len(read_rows(tmp_path / "out_failures.jsonl"))
    (metrics,) = orjson.loads((tmp_path / "out_aggregate_metrics.json").read_bytes())
    assert failed == broken.tally.failed == metrics["agent_metrics"]["count/outcome/failed"]
    rows = identities(read_rows(tmp_path / "out.jsonl"))
    assert (broken.end, broken.exit_code, broken.tally.scored) == ("broken", 1, len(rows))
    assert broken.agents[0].completed == len(rows)
    assert not shards_in(tmp_path)
    async with serving(AgentServer()) as gym:
        summary = await run(gym, tmp_path, 1, existing=Existing.RESUME)
    assert (summary.exit_code, summary.tally.finished_before) == (0, len(rows))
    assert len(set(identities(read_rows(tmp_path / "out.jsonl")))) == 80


def shards_in(folder: Path) -> list[Path]:
    return list(folder.glob("*_shard_*"))


@pytest.mark.parametrize("packing", ["", ".zst"])
async def test_what_a_killed_collector_s_processes_left_is_taken_over(tmp_path: Path, packing: str) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 6)
    output = tmp_path / f"out.jsonl{packing}"
    async with serving(AgentServer(failing=frozenset({5}))) as gym:
        await run(gym, tmp_path, 1, output=output, limits=Limits(max_attempts=1))
    lines = [line.content.rstrip() for line in read_lines(output)]
    shard = append_to(RunFiles.of(output).shard(1).rows)
    for line in (lines[0], RolloutId(5, 0).head() + b'"reward":1.0}'):
        shard.append(line)
    shard.close()
    torn_at = tail_of(shard.path) if packing else shard.path
    with torn_at.open("ab") as file:
        file.write(b'{"_ng_task_index":5,"_ng_roll')
    agent = AgentServer()
    async with serving(agent) as gym:
        with pytest.raises(ConfigError, match="belongs to an earlier run"):
            await run(gym, tmp_path, 3, output=output)
        summary = await run(gym, tmp_path, 3, output=output, existing=Existing.RESUME)
    assert (summary.exit_code, summary.tally.finished_before, agent.asked) == (0, 11, 1)
    rows = identities([orjson.loads(line.content) for line in read_lines(output)])
    assert sorted(rows) == [(task, repeat) for task in range(6) for repeat in range(2)]
    assert not shards_in(tmp_path)


async def test_processes_end_when_their_collector_is_killed(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 2)
    agent = AgentServer(hanging=frozenset({0, 1}))
    there_before = set(psutil.Process().children())
    async with serving(agent) as gym:
        running = asyncio.create_task(run(gym, tmp_path, 2))
        await agent.in_flight(4)
        running.cancel()  # as near as a test comes: the sockets to the processes are closed
        await asyncio.gather(running, return_exceptions=True)
        await agent.in_flight(0)
    assert set(psutil.Process().children()) <= there_before


async def test_servers_in_the_collector_s_own_process_can_t_be_called_from_others(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 1)
    with pytest.raises(ConfigError, match="auto is for one"):
        await run(Gym({}), tmp_path, 2, limits=Limits("auto"))
    config = {AGENT: {"responses_api_agents": {"simple": {"host": "inline", "port": 1}}}}
    with pytest.raises(ConfigError, match="processes of their own"):
        await run(Gym(config, transport=InMemoryTransport()), tmp_path, 2)


class FullDisk(Disk):
    """Has no room for one file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._full: set[int] = set()

    def open_to_append(self, path: Path) -> int:
        descriptor = super().open_to_append(path)
        (self._full.add if path.name == self._name else self._full.discard)(descriptor)
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if descriptor in self._full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(descriptor, data)


@pytest.mark.parametrize("name", ["out.jsonl", "out_materialized_inputs.jsonl"])
async def test_a_run_whose_rows_cannot_be_brought_together_is_broken_and_can_be_resumed(
    tmp_path: Path, name: str
) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 3)
    async with serving(AgentServer()) as gym:
        with disks.replaced_by(FullDisk(name)):
            broken = await run(gym, tmp_path, 2)
        assert (broken.end, broken.exit_code) == ("broken", 1)
        assert broken.stop is not None
        assert "No space left" in broken.stop.message
        summary = await run(gym, tmp_path, 1, existing=Existing.RESUME)
    assert summary.exit_code == 0
    assert len(set(identities(read_rows(tmp_path / "out.jsonl")))) == 6


async def test_processes_write_to_no_run_that_has_their_files_names(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 1)
    async with serving(AgentServer()) as gym:
        await run(gym, tmp_path, 1, output=tmp_path / "out_shard_1.jsonl")
        with pytest.raises(ConfigError, match=r"out_shard_1\.jsonl belongs to another run"):
            await run(gym, tmp_path, 2)
        assert (await run(gym, tmp_path, 1)).exit_code == 0
    assert len(read_rows(tmp_path / "out_shard_1.jsonl")) == 2


async def test_a_process_that_cannot_open_its_files_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told: list[Told] = []
    ended = asyncio.Event()
    channel = Channel(told.append, ended.set)
    ours, theirs = socket.socketpair()
    await asyncio.get_running_loop().create_connection(lambda: channel, sock=ours)
    serving_share = asyncio.create_task(serve(theirs))
    dataset = DatasetFile(write_dataset(tmp_path / "tasks.jsonl", 1))
    channel.send(
        ShardSetup(
            share=Share(0, 1),
            files=RunFiles.of(tmp_path / "file" / "out.jsonl"),
            plan=PlanSettings((dataset,)),
            first_tasks=(0,),
            finished=FinishedRollouts(),
            limits=Limits(),
            urls={},
            token=None,
        )
    )
    async with asyncio.timeout(30):
        await ended.wait()
        await serving_share
    last = told[-1]
    assert isinstance(last, Ended)
    assert last.broken is not None
    assert "cannot write" in last.broken.message
