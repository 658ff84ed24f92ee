"""Calls to an engine whose core has died: it answers with errors for a while before its process ends."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.engines.engine import UpstreamEngine
from nemo_gym.failures import EngineError
from responses_api_models.local_vllm_model.engine_process import LocalEngine
from tests.waiting import until

ENGINE = """
import http.server, os, sys, threading

port, folder, ends_after = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
is_first = not os.path.exists(folder + "/started")
open(folder + "/started", "w").close()

class Engine(http.server.BaseHTTPRequestHandler):
    is_dead = False

    def do_GET(self):
        self.answer(503 if Engine.is_dead else 200)

    def do_POST(self):
        if self.path.endswith("/refused"):
            return self.answer(400)
        if self.path.endswith("/odd"):
            return self.answer(500)
        if is_first:
            Engine.is_dead = True
            threading.Timer(ends_after, os._exit, [1]).start()
        self.answer(500 if Engine.is_dead else 200)

    def answer(self, status):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"{}")

http.server.ThreadingHTTPServer(("127.0.0.1", port), Engine).serve_forever()
"""


@asynccontextmanager
async def running(folder: Path, ends_after_s: float, **options: Any) -> AsyncIterator[LocalEngine]:
    """An engine whose first process dies of its first call: it is unhealthy at once, and ends after `ends_after_s`."""
    script = folder / "engine.py"
    script.write_text(ENGINE)
    words = shlex.join([sys.executable, str(script)])
    command = f"{words} {{port}} {shlex.quote(str(folder))} {ends_after_s}"
    engine = LocalEngine(command, {}, variables={}, **{"max_restarts": 1, **options})
    await engine.start()
    keeping = asyncio.create_task(engine.keep_alive())
    try:
        yield engine
    finally:
        keeping.cancel()
        await engine.stop()


async def post(engine: LocalEngine, path: str = "/answer") -> Any:
    return await engine.call(lambda: UpstreamEngine(engine.url).post(path, {}))


async def test_calls_that_fail_because_the_engine_dies_are_made_again(tmp_path: Path) -> None:
    async with running(tmp_path, 1.0) as engine:
        answers = await asyncio.gather(*(post(engine) for _ in range(5)))
        assert [answer.body for answer in answers] == [{}] * 5
        assert engine._restarts_left == 0


async def test_such_calls_fail_with_the_engines_end_if_it_is_not_restarted(tmp_path: Path) -> None:
    async with running(tmp_path, 0.5, max_restarts=0) as engine:
        with pytest.raises(EngineError, match="ended with code 1 while it served requests"):
            await post(engine)
        await until(lambda: engine._failure)


async def test_errors_of_a_healthy_engine_are_those_of_the_call(tmp_path: Path) -> None:
    async with running(tmp_path, 60.0) as engine:
        with pytest.raises(EngineError, match="HTTP 400"):
            await post(engine, "/refused")
        with pytest.raises(EngineError, match="HTTP 500"):
            await post(engine, "/odd")


async def test_an_engine_that_is_unhealthy_and_does_not_end_is_not_waited_for_without_end(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, 60.0, ending_s=0.0) as engine:
        with pytest.raises(EngineError, match="HTTP 500"):
            await post(engine)
        assert engine._restarts_left == 1
