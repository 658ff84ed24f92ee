"""The endpoint of a run: its token, its origin check, and the file that announces it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_gym.names import TOKEN_HEADER
from nemo_gym.rollouts.control.endpoint import find_announced, read_announcement, serve_control
from nemo_gym.transport import Call, call_once
from tests.rollouts.control.controlled import build_controlled
from tests.rollouts.doubles import Agents


async def test_a_run_is_announced_to_its_user_only_and_answers_there(tmp_path: Path) -> None:
    place = tmp_path / "results" / "rollouts_control.json"
    place.parent.mkdir()
    control = build_controlled(Agents(), 2).control
    async with serve_control(control, place):
        assert place.stat().st_mode & 0o777 == 0o600
        (announced,) = find_announced(tmp_path)
        for verb in ("pause", "resume"):
            call = Call("POST", f"/_ng/runs/{announced.run}/{verb}", b"{}", json_headers(announced.token))
            reply = await call_once(announced.url, call, timeout_s=10)
            assert reply.ok, reply.body
    assert not place.exists()
    assert find_announced(tmp_path) == []


def json_headers(token: str | None, **others: str) -> dict[str, str]:
    known = {TOKEN_HEADER: token} if token is not None else {}
    return {"content-type": "application/json", **known, **others}


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        (json_headers(None), 401, "token_required"),
        (json_headers("wrong"), 401, "token_required"),
        (json_headers("right", origin="https://evil.example"), 403, "foreign_origin"),
        (json_headers("right") | {"content-type": "text/plain"}, 415, "content_type"),
        (json_headers("right", origin="http://127.0.0.1:1"), 200, None),
    ],
)
async def test_a_request_needs_the_token_and_an_origin_of_this_machine(
    headers: dict[str, str], status: int, code: str | None, tmp_path: Path
) -> None:
    run = build_controlled(Agents(), 2)
    async with serve_control(run.control, tmp_path / "rollouts_control.json"):
        (announced,) = find_announced(tmp_path)
        if headers.get(TOKEN_HEADER) == "right":
            headers = {**headers, TOKEN_HEADER: announced.token}
        call = Call("POST", "/_ng/runs/rollouts/pause", b"{}", headers)
        reply = await call_once(announced.url, call, timeout_s=10)
    assert reply.status == status
    if code is not None:
        assert reply.json()["error"]["code"] == code
        assert run.control.describe()["phase"] == "running"


def test_the_file_of_a_run_that_was_killed_announces_nothing(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    place = tmp_path / "a_control.json"
    told = {"run": "a", "url": "http://127.0.0.1:1", "token": "t", "started_at": "2026-01-01T00:00:00+00:00"}
    place.write_text(json.dumps({**told, "pid": ended.pid}))
    assert read_announcement(place) is None
    place.write_text(json.dumps({**told, "pid": os.getpid(), "started_at": "2099-01-01T00:00:00+00:00"}))
    assert read_announcement(place) is not None
    for damaged in ("", "[]", "{", '{"run": "a"}'):
        place.write_text(damaged)
        assert read_announcement(place) is None


def test_a_run_that_nobody_controls_imports_no_http_server() -> None:
    program = """
import asyncio, sys
from pathlib import Path
from nemo_gym.rollouts.control.endpoint import serve_control
from tests.rollouts.control.controlled import build_controlled
from tests.rollouts.doubles import Agents

async def main(place):
    async with serve_control(build_controlled(Agents(), 2).control, place):
        await asyncio.sleep(0)
    print("uvicorn" in sys.modules, "fastapi" in sys.modules)

asyncio.run(main(Path(sys.argv[1])))
"""
    place = Path(os.environ.get("TMPDIR", "/tmp")) / f"{os.getpid()}_control.json"
    done = subprocess.run(
        [sys.executable, "-c", program, str(place)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "False"]
