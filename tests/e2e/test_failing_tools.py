"""A tool that fails is seen: an environment in an empty folder, real processes, `gym eval run` against the stub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.gym_command import run_gym

BIN = Path(sys.executable).parent
APP = Path("resources_servers", "lockbox", "app.py")
HANDLER = """    async def open_drawer(self, request: Request, body: OpenDrawer) -> dict[str, str | None]:
        return {"note": request.session["notes"].get(body.drawer)}
"""
ROUTE = '        app.post("/open_drawer")(self.open_drawer)  # the route of a tool is its name\n'
RAISES = HANDLER.replace(
    'return {"note": request.session["notes"].get(body.drawer)}', 'raise ValueError("boom")'
)
BOOM = "ValueError: boom (resources_servers/lockbox/app.py:33)"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "runtime").mkdir(mode=0o700)
    return {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "runtime"), "COLUMNS": "200"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[str]:
    with (tmp_path / "engine.txt").open("w") as errors:
        stub = subprocess.Popen(
            [BIN / "ng_mock_engine", "+json=true"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert stub.stdout is not None
    try:
        yield str(json.loads(stub.stdout.readline())["base_url"])
    finally:
        stub.terminate()
        stub.communicate(timeout=60)


@pytest.fixture
def folder(tmp_path: Path, environment: dict[str, str]) -> Path:
    made = run_gym(tmp_path, environment, "env", "init", "lockbox")
    assert made.returncode == 0, made.stderr
    return tmp_path


def rewrite(folder: Path, old: str, new: str) -> None:
    code = (folder / APP).read_text()
    assert old in code
    (folder / APP).write_text(code.replace(old, new))


def evaluate(
    folder: Path, environment: dict[str, str], engine: str, *more: str
) -> subprocess.CompletedProcess[str]:
    policy = ["--url", engine, "--model", "mock", "+head_server.port=0"]
    return run_gym(folder, environment, "eval", "run", "lockbox", *policy, "-n", "4", "-o", "r.jsonl", *more)


def test_a_tool_that_raises_stops_the_run_and_a_resume_after_the_correction_repeats_it(
    folder: Path, environment: dict[str, str], engine: str
) -> None:
    rewrite(folder, HANDLER, RAISES)
    stopped = evaluate(folder, environment, engine, "+stop_after_identical_failures=6", "--concurrency", "2")
    said = stopped.stdout + stopped.stderr
    assert stopped.returncode == 1, said
    rows = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]
    assert 6 <= len(rows) < 20
    assert f"{len(rows)} of {len(rows)} calls of `open_drawer` failed: {BOOM}" in said
    assert f"stopped: 6 consecutive calls of `open_drawer` failed: {BOOM}" in said
    (error,) = rows[0]["_ng_tool_errors"]
    assert (error["by"], error["kind"], error["count"]) == ("environment", "raised", 1)
    ill = run_gym(folder, environment, "eval", "health-check", "r.jsonl")
    assert ill.returncode == 1
    assert "tool_raised" in ill.stdout
    rewrite(folder, RAISES, HANDLER)
    again = evaluate(folder, environment, engine, "--resume", "+retry_tool_errors=true", "--mark-new-code")
    assert again.returncode == 0, again.stdout + again.stderr
    rows = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]
    assert len(rows) == 20
    assert not any("_ng_tool_errors" in row for row in rows)
    (metrics,) = json.loads((folder / "r_aggregate_metrics.json").read_text())
    assert not [name for name in metrics["agent_metrics"] if "tool_" in name]


def test_without_the_rule_the_run_ends_and_says_what_failed(
    folder: Path, environment: dict[str, str], engine: str
) -> None:
    rewrite(folder, HANDLER, RAISES)
    done = evaluate(folder, environment, engine, "+stop_after_identical_failures=0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"20 of 20 calls of `open_drawer` failed: {BOOM}" in done.stdout + done.stderr
    (metrics,) = json.loads((folder / "r_aggregate_metrics.json").read_text())
    figures = metrics["agent_metrics"]
    assert figures["count/tool_errors/open_drawer"] == figures["count/tool_calls/open_drawer"] == 20
    assert (figures["tool_error_rate"], figures["mean/tool_errors"]) == (100.0, 1.0)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            HANDLER,
            HANDLER.replace("request: Request, body: OpenDrawer", "request, drawer: str"),
            "resources_servers/lockbox/app.py:32: `open_drawer` cannot be called by POST /open_drawer: "
            "FastAPI reads `request`, `drawer: str` from the query of the URL",
        ),
        (
            HANDLER,
            HANDLER.replace("body: OpenDrawer", "body"),
            "resources_servers/lockbox/app.py:32: `open_drawer` cannot be called by POST /open_drawer: "
            "FastAPI reads `body` from the query of the URL",
        ),
        (
            ROUTE,
            "",
            "`lockbox` has the method `open_drawer` (resources_servers/lockbox/app.py:31), "
            "and no route POST /open_drawer for it.",
        ),
        (
            "        return app\n",
            "",
            "resources_servers/lockbox/app.py:23: `setup_webserver` of Lockbox returned None",
        ),
    ],
    ids=["no model", "untyped body", "forgotten route", "no app"],
)
def test_code_that_cannot_work_is_refused_before_the_first_rollout(
    folder: Path, environment: dict[str, str], engine: str, old: str, new: str, told: str
) -> None:
    rewrite(folder, old, new)
    refused = evaluate(folder, environment, engine)
    said = refused.stdout + refused.stderr
    assert refused.returncode == 2, said
    assert told in " ".join(said.split())
    assert "restart" not in said
    assert not (folder / "r.jsonl").exists()
