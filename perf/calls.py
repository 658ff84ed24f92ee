"""Counts of Python calls and bytecode instructions of one tool-calling rollout. They are the same on every machine.

The rollout runs inline, and over sockets between the same servers, all in this process so that they can be counted.
Over sockets it also runs as an attempt of a durable run, whose calls are recorded.
Every call, every resumption of a coroutine and every instruction counts, of the gym and of its libraries. The engine
stub is excluded. A test compares the counts with committed ones (`tests/perf/test_counts.py`). The floor is the same
number of requests, 7 to servers and 2 to the engine stub, with a bare ASGI app behind the same HTTP server and client.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, TypeAlias

import orjson
import uvloop

from nemo_gym import mock_engine
from nemo_gym.config.loading import load
from nemo_gym.launch.inline import inline
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rollouts.output.attempt_records import AttemptRecords
from nemo_gym.rows.identity import RolloutId
from nemo_gym.serving.durable.names import new_run
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport import Call, HttpTransport, Reply
from nemo_gym.transport.context import SESSION_HEADER
from nemo_gym.transport.control import DURABLE_RUNS
from nemo_gym.transport.directory import Directory
from nemo_gym.transport.pools import process_transport
from perf.episodes import EPISODES
from perf.floor import serving_bare
from perf.measure import Figures
from resources_servers.example_single_tool_call.app import ExampleSingleToolCallResourcesServer
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.vllm_model.app import VLLMModel

EPISODE = EPISODES["tool-calling"]
_SCRIPTED = (
    f"+config_paths=[resources_servers/{EPISODE.environment}/configs/{EPISODE.environment}.yaml,"
    "responses_api_models/scripted_model/configs/scripted_model.yaml]"
)
_WARM_UP, _COUNTED = 12, 5
_STUB = str(Path(mock_engine.__file__).parent)
_MOST_SHOWN = 15
_ROOMS = ("serving", "transport", "engines", "responses", "episodes", "agents", "rows")
_SERVER_FOLDERS = ("resources_servers", "responses_api_agents", "responses_api_models")
_TO_SERVERS, _TO_ENGINE = 7, 2
"""Requests of a rollout: /run, /seed_session, twice the model, the tool, /verify and /close_session; the engine's."""

Send: TypeAlias = Callable[[Call], Awaitable[Reply]]
"""Makes a call to the agent."""


@dataclass(slots=True)
class Work:
    """Executed calls and instructions by function."""

    calls: Counter[CodeType] = field(default_factory=Counter)
    instructions: Counter[CodeType] = field(default_factory=Counter)

    def most(self, count: int = _MOST_SHOWN) -> dict[str, dict[str, float]]:
        """Return the functions with the most instructions, with their figures per rollout."""
        return {
            f"{Path(code.co_filename).name}: {code.co_qualname}": {
                "calls": self.calls[code] / _COUNTED,
                "instructions": instructions / _COUNTED,
            }
            for code, instructions in self.instructions.most_common(count)
        }

    def by_room(self) -> dict[str, float]:
        """Return the instructions per rollout of each room of the gym, and of its libraries."""
        rooms: Counter[str] = Counter()
        for code, instructions in self.instructions.items():
            rooms[find_room(code.co_filename)] += instructions
        return {room: instructions / _COUNTED for room, instructions in rooms.most_common()}

    def clear(self) -> None:
        """Forget everything that was counted."""
        self.calls.clear()
        self.instructions.clear()

    @property
    def calls_per_rollout(self) -> float:
        return self.calls.total() / _COUNTED

    @property
    def instructions_per_rollout(self) -> float:
        return self.instructions.total() / _COUNTED


def find_room(path: str) -> str:
    """Return the room that a file belongs to: a library's name, or a folder of the gym."""
    parts = Path(path).parts
    if "site-packages" in parts:
        return "uvicorn" if "uvicorn" in parts else "other libraries"
    if "nemo_gym" in parts and len(parts) - parts.index("nemo_gym") > 2:
        room = parts[parts.index("nemo_gym") + 1]
        return room if room in _ROOMS else "other rooms"
    is_server = any(part in _SERVER_FOLDERS for part in parts)
    return "other rooms" if is_server or "nemo_gym" in parts else "Python"


class Counting:
    """Counts the work of the current thread, except the engine stub's."""

    def __init__(self) -> None:
        self.work = Work()
        self._depth_in_stub = 0

    def __enter__(self) -> Work:
        # Python 3.12 traces instructions only if some frame asked for them before tracing starts.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._enter)
        return self.work

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_lines = False
        if self._depth_in_stub or frame.f_code.co_filename.startswith(_STUB):
            self._depth_in_stub += 1
            frame.f_trace_opcodes = False
            return self._leave_stub
        self.work.calls[frame.f_code] += 1
        frame.f_trace_opcodes = True
        return self._execute

    def _execute(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            self.work.instructions[frame.f_code] += 1
        return self._execute

    def _leave_stub(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self._depth_in_stub -= 1
        return self._leave_stub


def work_inline(wrap: Callable[[Any], Any] = lambda app: app) -> Work:
    """Count rollouts with all servers in one event loop. `wrap` may wrap the agent's app."""
    return _run(_work_of(_inline_gym(wrap)))


def work_over_sockets(*, durable: bool = False) -> Work:
    """Count rollouts over sockets, for servers and clients together. `durable`: with the records of their attempts."""
    with EngineProcess(EngineOptions()) as stub, TemporaryDirectory() as folder:
        records = AttemptRecords(Path(folder), new_run(), has_calls_alone=True) if durable else None
        return _run(_work_of(_gym_over_sockets(stub.base_url, records)))


def work_of_floor() -> Work:
    """Count the requests of a rollout between bare ASGI apps, for servers and clients together."""
    with EngineProcess(EngineOptions()) as stub:
        return _run(_count_floor(stub.base_url))


def run(runs: int) -> Figures:
    """Return the work per rollout, in total and for the most expensive functions. Counts do not vary between runs."""
    counted = {
        "inline": work_inline(),
        "over sockets": work_over_sockets(),
        "durable, over sockets": work_over_sockets(durable=True),
        "the floor of that over sockets": work_of_floor(),
    }
    return {
        name: {
            "calls_per_rollout": work.calls_per_rollout,
            "instructions_per_rollout": work.instructions_per_rollout,
            **{f"in_{room}".replace(" ", "_").lower(): spent for room, spent in work.by_room().items()},
            "most": work.most(),
        }
        for name, work in counted.items()
    }


def _run(counting: Any) -> Work:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # its own work is no Python
        work: Work = runner.run(counting)
        return work


async def _work_of(gym: Any) -> Work:
    """Count a few sequential rollouts after a warm-up."""
    async with gym as send:

        async def attempt() -> None:
            reply = await send(Call("POST", "/run", EPISODE.body(), {"content-type": "application/json"}))
            if not reply.ok or reply.json()["reward"] != 1.0:
                raise RuntimeError(f"the attempt was not scored 1: HTTP {reply.status} {reply.body[:500]!r}")

        return await count_work(attempt)


async def count_work(attempt: Callable[[], Awaitable[None]]) -> Work:
    """Count a few attempts, one after the other, after a warm-up."""
    for _ in range(_WARM_UP):
        await attempt()
    with Counting() as work:
        # On newer Pythons, the instructions of a function are traced from its second call on.
        await attempt()
        work.clear()
        for _ in range(_COUNTED):
            await attempt()
    return work


async def _count_floor(engine_url: str) -> Work:
    transport = HttpTransport()
    body, headers = EPISODE.body(), {"content-type": "application/json"}
    calls = orjson.dumps({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]})
    async with serving_bare() as url:

        async def attempt() -> None:
            for _ in range(_TO_SERVERS):
                await transport.send(url, Call("POST", "/", body, dict(headers)))
            for _ in range(_TO_ENGINE):
                await transport.send(engine_url, Call("POST", "/chat/completions", calls, dict(headers)))

        try:
            return await count_work(attempt)
        finally:
            await transport.close()


@asynccontextmanager
async def _inline_gym(wrap: Callable[[Any], Any]) -> AsyncIterator[Send]:
    async with inline(load([_SCRIPTED], env_path=None)) as gym:
        url = Directory.from_config(gym.config).choose(EPISODE.agent, None)
        gym.transport.apps[url] = wrap(gym.transport.apps[url])
        yield lambda call: gym.transport.send(url, call)


@asynccontextmanager
async def _gym_over_sockets(engine_url: str, records: AttemptRecords | None) -> AsyncIterator[Send]:
    gym = InProcessGym()
    gym.add(ExampleSingleToolCallResourcesServer, EPISODE.environment)
    gym.add(VLLMModel, "policy_model", base_url=engine_url, api_key="none", model="mock")
    references = {
        "resources_server": {"type": "resources_servers", "name": EPISODE.environment},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    gym.add(SimpleAgent, EPISODE.agent, **references)
    transport = HttpTransport()
    async with gym.running(over_http=True):
        directory = Directory.from_config(gym.config)
        url = directory.choose(EPISODE.agent, None)
        if records is not None:
            told = orjson.dumps({"run": records.run, "folder": str(records.folder)})
            reply = await transport.send(
                directory.choose("policy_model", None), Call("POST", DURABLE_RUNS, told)
            )
            if not reply.ok:
                raise RuntimeError(f"the model server does not record: {reply.body[:500]!r}")
        numbers = count()

        async def send(call: Call) -> Reply:
            if records is None:
                return await transport.send(url, call)
            identity = RolloutId(next(numbers), 0)
            call.headers[SESSION_HEADER] = str(records.name_next(identity))
            reply = await transport.send(url, call)
            records.release(identity)
            return reply

        try:
            yield send
        finally:
            await transport.close()
            await process_transport().close()  # the model server's
