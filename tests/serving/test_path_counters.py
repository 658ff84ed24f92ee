"""The calls and errors of each path of a server: counted, bounded, with the last error's cause and place."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym.serving.path_counters import OTHER_PATHS, PathCounters, keep_cause
from tests.serving.environments import CounterEnvironment, task_row

APP = """
from fastapi import APIRouter, Body, HTTPException, Request
from pydantic import BaseModel

from tests.serving.environments import CounterEnvironment


class Guess(BaseModel):
    digits: str


class Lockbox(CounterEnvironment):
    def setup_webserver(self):
        app = super().setup_webserver()
        router = APIRouter()
        for name in ("stuck", "no_json", "no_json_fastapi", "forgotten", "validates", "guess"):
            app.post(f"/{name}")(getattr(self, name))
        router.post("/routed")(self.stuck)
        app.include_router(router)
        return app

    async def stuck(self):
        raise HTTPException(500, "the drawer is stuck")

    async def no_json(self):
        return {"a": object()}

    def no_json_fastapi(self):
        return {"a": object()}

    async def forgotten(self, request: Request):
        return request.session["code"]

    async def validates(self):
        return Guess.model_validate({})

    async def guess(self, body: Guess):
        return body.digits
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(APP.splitlines(), 1) if text in line)


@pytest.fixture
def lockbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CounterEnvironment:
    file = tmp_path / "resources_servers" / "lockbox" / "app.py"
    file.parent.mkdir(parents=True)
    file.write_text(APP)
    spec = importlib.util.spec_from_file_location("lockbox_of_path_counters", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    server: CounterEnvironment = module.Lockbox.standalone(name="lockbox")
    return server


@pytest.mark.parametrize(
    ("tool", "cause", "raises"),
    [
        ("stuck", "HTTP 500: the drawer is stuck", "raise HTTPException(500"),
        ("routed", "HTTP 500: the drawer is stuck", "raise HTTPException(500"),
        ("no_json", "TypeError: ", "async def no_json(self)"),
        ("no_json_fastapi", "ValueError: ", "def no_json_fastapi(self)"),
        ("forgotten", "KeyError: 'code'", 'return request.session["code"]'),
        ("guess", "the request is not a valid Guess: digits: Field required", "async def guess(self"),
    ],
)
def test_a_failed_call_has_a_cause_and_the_authors_line(
    lockbox: CounterEnvironment, tool: str, cause: str, raises: str
) -> None:
    client = TestClient(lockbox.finish_app(), headers={"x-ng-session": "s"})
    client.post("/seed_session", json=task_row())
    client.post(f"/{tool}", json={})
    figures = client.get("/_ng/stats").json()["tools"][tool]
    assert (figures["calls"], figures["errors"]) == (1, 1)
    assert figures["cause"].startswith(cause)
    assert figures["place"] == f"resources_servers/lockbox/app.py:{line_of(raises)}"


def test_an_authors_error_keeps_its_body_and_names_its_line_in_a_header(lockbox: CounterEnvironment) -> None:
    reply = TestClient(lockbox.finish_app()).post("/stuck")
    assert reply.json() == {"detail": "the drawer is stuck"}
    place = f"resources_servers/lockbox/app.py:{line_of('raise HTTPException(500')}"
    assert reply.headers["x-ng-place"] == place


def test_a_success_keeps_the_cause_of_the_last_error(lockbox: CounterEnvironment) -> None:
    client = TestClient(lockbox.finish_app())
    client.post("/guess", json={})
    client.post("/guess", json={"digits": "12"})
    figures = client.get("/_ng/stats").json()["tools"]["guess"]
    assert (figures["calls"], figures["errors"]) == (2, 1)
    assert "Field required" in figures["cause"]


def test_the_gyms_own_routes_are_no_tools(lockbox: CounterEnvironment) -> None:
    client = TestClient(lockbox.finish_app())
    client.post("/seed_session", json=task_row())
    client.get("/reverify_mode")
    assert client.get("/_ng/stats").json()["tools"] == {}


def test_paths_are_bounded() -> None:
    counters = PathCounters()
    for number in range(1_000):
        counters[f"/{number}"].calls += 1
    counters["/" + "x" * 10_000].calls += 1
    assert len(counters) == 257
    assert counters[OTHER_PATHS].calls == 1_000 - 256 + 1
    assert counters["/7"].calls == 1


def test_an_error_without_a_cause_has_its_status() -> None:
    counters, scope = PathCounters(), dict[str, Any]()
    counters["/a"].note_error(418, scope)
    assert counters["/a"].cause == "HTTP 418"
    keep_cause(scope, "x" * 1_000, "app.py:3")
    counters["/a"].note_error(500, scope)
    assert (len(counters["/a"].cause or ""), counters["/a"].place, counters["/a"].errors) == (
        300,
        "app.py:3",
        2,
    )
