from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
import time
from contextlib import aclosing
from pathlib import Path

import pytest
import yaml

from nemo_gym.client import AsyncGym, Gym, Rollout, RolloutOptions
from nemo_gym.failures import ConfigError, GymError, InputError, TransportError
from nemo_gym.head._rollout_request import RolloutRequestOptions as RouteOptions
from nemo_gym.names import TOKEN_HEADER
from tests.client.gyms import TOKEN, LoopbackGym, gym_in_a_thread, rows, running_gym
from tests.waiting import until, wait_until


def check_solved(rollouts: list[Rollout], count: int, repeats: int) -> None:
    assert sorted((each.task, each.repeat) for each in rollouts) == [
        (task, repeat) for task in range(count) for repeat in range(repeats)
    ]
    for each in rollouts:
        assert each.row["number"] == each.task
        assert each.failure is None
        assert each.outcome == "completed"
        assert isinstance(each.reward, float)
        kinds = [item["type"] for item in each.response["output"]]
        assert kinds == ["function_call", "function_call_output", "message"]


def test_a_trainer_gets_scored_rollouts_with_tool_use() -> None:
    with gym_in_a_thread() as running:
        gym = Gym.connect(url=running.url, token=TOKEN)
        check_solved(list(gym.rollouts(rows(5), num_repeats=3)), 5, 3)


async def test_an_event_loop_gets_the_same() -> None:
    async with running_gym() as running:
        gym = AsyncGym.connect(url=running.url, token=TOKEN)
        check_solved([each async for each in gym.rollouts(rows(5), num_repeats=3)], 5, 3)


def test_a_stream_that_was_read_is_no_failure_to_the_gym(caplog: pytest.LogCaptureFixture) -> None:
    with gym_in_a_thread() as running:
        gym = Gym.connect(url=running.url, token=TOKEN)
        for _ in range(5):
            assert len(list(gym.rollouts(rows(3)))) == 3
        wait_until(lambda: running.head.middleware.stats.in_flight == 0)
    check_counted(running, caplog, 5)


async def test_nor_is_one_that_an_event_loop_read(caplog: pytest.LogCaptureFixture) -> None:
    async with running_gym() as running:
        gym = AsyncGym.connect(url=running.url, token=TOKEN)
        for _ in range(5):
            assert len([each async for each in gym.rollouts(rows(3))]) == 3
        await until(lambda: running.head.middleware.stats.in_flight == 0)
    check_counted(running, caplog, 5)


def check_counted(running: LoopbackGym, caplog: pytest.LogCaptureFixture, requests: int) -> None:
    stats = running.head.middleware.stats
    assert (stats.requests, stats.errors, stats.cancelled) == (requests, 0, 0)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_failure_is_a_rollout_without_a_reward() -> None:
    async with running_gym(faults=[{"do": "overflow_1", "nth": 1}]) as running:
        gym = AsyncGym.connect(url=running.url, token=TOKEN)
        (failed,) = [each async for each in gym.rollouts(rows(1), max_attempts=1)]
    assert failed.reward is None
    assert failed.outcome == "failed"
    assert failed.failure is not None
    assert failed.failure.boundary == "engine"


async def test_what_is_wrong_with_the_rows_is_raised_and_nothing_runs() -> None:
    async with running_gym() as running:
        gym = AsyncGym.connect(url=running.url, token=TOKEN)
        with pytest.raises(InputError, match="missing_agent"):
            [each async for each in gym.rollouts([{**rows(1)[0], "agent_ref": {"name": "missing_agent"}}])]
        assert running.engine.stats.requests.total() == 0


@pytest.mark.parametrize("token", [None, "another"])
async def test_rollouts_need_the_token_of_the_run(token: str | None) -> None:
    async with running_gym() as running:
        with pytest.raises(InputError, match="token"):
            [each async for each in AsyncGym.connect(url=running.url, token=token).rollouts(rows(1))]


async def test_a_run_that_is_given_up_raises_its_reason() -> None:
    async with running_gym(api_key="right") as running:
        gym = AsyncGym.connect(url=running.url, token=TOKEN)
        found: list[Rollout] = []

        async def collect() -> None:
            async for each in gym.rollouts(rows(40), max_attempts=1, num_samples_in_parallel=2):
                found.append(each)

        with pytest.raises(GymError, match="consecutive rollouts failed"):
            await collect()
    assert 20 <= len(found) <= 22
    assert all(each.reward is None for each in found)


def is_idle(running: LoopbackGym) -> bool:
    return running.engine.stats.in_flight == 0 and running.open_sessions == 0


async def test_leaving_early_cancels_every_engine_request_and_closes_every_session() -> None:
    async with running_gym(latency_s=60) as running:
        gym = AsyncGym.connect(url=running.url, token=TOKEN)
        reading = asyncio.ensure_future(anext(gym.rollouts(rows(20))))
        await until(lambda: running.engine.stats.in_flight == 20)
        assert running.open_sessions == 20
        reading.cancel()
        await until(lambda: is_idle(running))
        assert running.engine.stats.disconnects == 20


async def test_leaving_in_the_middle_of_the_stream_does_the_same() -> None:
    async with running_gym(faults=[{"delay_s": 60, "match": "Add 1"}]) as running:
        gym = AsyncGym.connect(url=running.url, token=TOKEN)
        async with aclosing(gym.rollouts(rows(20), num_samples_in_parallel=4)) as rollouts:
            await anext(rollouts)
            await until(lambda: running.engine.stats.in_flight == 4)
        await until(lambda: is_idle(running))


def test_a_plain_loop_that_is_left_cancels_what_is_in_flight() -> None:
    with gym_in_a_thread(latency_s=0.02) as running:
        for _ in Gym.connect(url=running.url, token=TOKEN).rollouts(rows(500)):
            break
        wait_until(lambda: is_idle(running))
        assert running.engine.stats.requests.total() < 500


async def test_a_reader_that_pauses_pauses_the_run() -> None:
    """Rollouts run ahead only as far as the socket buffers; the rest runs when it is read."""
    count, window = 40, 4
    padded = [{**row, "padding": "x" * 300_000} for row in rows(count)]
    body = json.dumps({"rows": padded, "num_samples_in_parallel": window}).encode()
    async with running_gym() as running:
        reader, writer = await slow_connection(running.url)
        writer.write(post("/rollouts", body))
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        asked = running.engine.stats.requests
        before = -1
        while before != asked.total() or not before:
            before = asked.total()
            await asyncio.sleep(0.3)
        assert asked.total() < 2 * count * 0.8
        body = await reader.read()
        writer.close()
    assert body.count(b'"reward":') == count
    assert b'"scored":40' in body
    assert asked.total() == 2 * count


def test_a_trainer_that_pauses_in_its_loop_pauses_the_run() -> None:
    count = 400  # more bytes than the buffers of sockets hold, 36 MB of them seen
    padded = [{**row, "padding": "x" * 300_000} for row in rows(count)]
    with gym_in_a_thread() as running:
        asked = running.engine.stats.requests
        rollouts = Gym.connect(url=running.url, token=TOKEN).rollouts(padded, num_samples_in_parallel=4)
        next(rollouts)
        before = -1
        while before != asked.total():
            before = asked.total()
            time.sleep(0.5)
        assert asked.total() < 2 * count * 0.8
        assert len(list(rollouts)) == count - 1
        assert asked.total() == 2 * count


async def slow_connection(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection whose reader takes next to nothing until it is read."""
    host, _, port = url.removeprefix("http://").partition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
    return await asyncio.open_connection(sock=connection, limit=1 << 10)


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: gym\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n{TOKEN_HEADER}: {TOKEN}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    "sent", [b"", b'{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1}\n', b'{"_ng_ta']
)
async def test_a_stream_without_its_last_line_is_broken_off(sent: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        if sent:
            writer.write(b"%x\r\n%b\r\n" % (len(sent), sent))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        with pytest.raises(TransportError, match="ended early"):
            [each async for each in AsyncGym.connect(url=url).rollouts([])]
        with pytest.raises(TransportError, match="ended early"):
            await asyncio.to_thread(lambda: list(Gym.connect(url=url).rollouts([])))


def test_a_gym_that_is_not_there_is_named() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # held, so that no other test listens there
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(TransportError, match=f"no gym answers at {url}"):
            list(Gym.connect(url=url).rollouts([]))


def test_the_gym_of_a_folder_is_found(tmp_path: Path) -> None:
    run = {"pid": 1, "token": TOKEN, "head": "http://127.0.0.1:11000", "started_at": "now"}
    (tmp_path / ".nemo_gym_global_config.yaml").write_text(yaml.safe_dump({"_ng_run": run, "a": 1}))
    gym = Gym.connect(tmp_path)
    assert (gym.address.url, gym.address.token) == (run["head"], TOKEN)
    assert TOKEN not in repr(gym)
    assert AsyncGym.connect(tmp_path).address == gym.address


def test_a_folder_without_a_gym_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no gym was started") as caught:
        Gym.connect(tmp_path)
    assert "ng_run" in str(caught.value)


def test_the_options_are_those_that_the_route_takes() -> None:
    assert {*RolloutOptions.__annotations__, "num_repeats"} == set(RouteOptions.model_fields)


def test_importing_the_client_is_cheap() -> None:
    heavy = (
        *(
            "aiohttp",
            "fastapi",
            "httpx",
            "numpy",
            "omegaconf",
            "openai",
            "orjson",
            "pandas",
            "pydantic",
            "ray",
        ),
        *("torch", "transformers", "uvicorn", "yaml", "nemo_gym.config"),
    )
    program = f"import sys, json; import nemo_gym.client; print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
