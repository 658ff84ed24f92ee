"""Requests that a web page can make a browser send, on a running gym, on every route."""

from __future__ import annotations

import contextlib

import pytest
from aiohttp import ClientSession
from fastapi import WebSocket
from fastapi.testclient import TestClient
from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocketDisconnect

from nemo_gym import PARENT_DIR
from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.config.loading import load
from nemo_gym.launch.inline import inline
from nemo_gym.serving.browser_requests import BrowserCheck, BrowserRefusal
from nemo_gym.testing.serving import serving
from tests.serving.environments import CounterEnvironment

ROUTES = [
    ("POST", "/verify"),
    ("POST", "/seed_session"),
    ("GET", "/"),
    ("GET", "/openapi.json"),
    ("GET", "/metrics"),
    ("POST", "/mcp/"),
    ("POST", "/nowhere"),
]

CONFIG = PARENT_DIR / "resources_servers" / "mcqa" / "configs" / "resources_only.yaml"
REFUSED = {
    "unknown_host": {b"host": b"attacker.example:8000"},
    "foreign_origin": {b"host": b"127.0.0.1:8000", b"origin": b"https://attacker.example"},
    "content_type": {b"host": b"localhost", b"content-type": b"text/plain;charset=UTF-8"},
}
SENT_WITHOUT_ASKING = [
    "text/plain",
    "TEXT/Plain; a=b",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "",
    None,
]


@pytest.mark.parametrize("code", REFUSED)
def test_a_request_of_a_page_is_refused_every_time(code: str) -> None:
    check = BrowserCheck()
    for _ in range(2):
        with pytest.raises(BrowserRefusal) as caught:
            check.check(REFUSED[code])
        assert caught.value.failure.code == code


@pytest.mark.parametrize(
    "origin", ["null", "http://203.0.113.5", "http://localhost.attacker.example", "http://[::1"]
)
def test_other_origins_are_refused(origin: str) -> None:
    with pytest.raises(BrowserRefusal, match="pages from"):
        BrowserCheck(["gym"]).check({b"host": b"gym:1", b"origin": origin.encode()})


@pytest.mark.parametrize("host", ["127.0.0.1:1", "[::1]:1", "localhost", "GYM:80", "10.1.2.3:5"])
def test_bound_and_listed_hosts_are_accepted(host: str) -> None:
    check = BrowserCheck(["gym"])
    check.check({b"host": host.encode(), b"content-type": b"application/json"})
    check.check({b"host": host.encode(), b"origin": b"http://localhost:3000"})
    check.check({})


@pytest.mark.parametrize("kind", SENT_WITHOUT_ASKING)
def test_a_body_that_a_page_can_send_without_asking_is_refused(kind: str | None) -> None:
    given = {} if kind is None else {b"content-type": kind.encode()}
    for length in ({b"content-length": b"2"}, {b"transfer-encoding": b"chunked"}):
        with pytest.raises(BrowserRefusal, match="content-type: application/json"):
            BrowserCheck().check({b"host": b"localhost", **length, **given})


@pytest.mark.parametrize("kind", [b"application/json", b"application/x-ndjson; charset=utf-8"])
def test_other_bodies_and_requests_without_one_are_accepted(kind: bytes) -> None:
    check = BrowserCheck()
    check.check({b"host": b"localhost", b"content-length": b"2", b"content-type": kind})
    check.check({b"host": b"localhost", b"content-length": b"0"})


async def test_every_route_of_a_gym_checks_them() -> None:
    config = load([f"+config_paths=[{CONFIG}]", "+allowed_hosts=[gym.example]"], env_path=None)
    async with inline(config) as gym:
        app = gym.servers["mcqa"].setup_webserver()
        app.get("/metrics")(lambda: {"seen": True})
        app.mount("/mcp", PlainTextResponse("an app of its own"))
        async with serving(app) as url, ClientSession() as client:
            for method, path in ROUTES:
                headers = {"x-ng-token": gym.token, "content-type": "application/json"}
                for refused, code in (
                    ({"origin": "https://attacker.example"}, "foreign_origin"),
                    ({"host": "attacker.example"}, "unknown_host"),
                    ({"content-type": "text/plain"}, "content_type"),
                ):
                    async with client.request(
                        method, url + path, data=b"{}", headers=headers | refused
                    ) as reply:
                        assert (await reply.json())["error"]["code"] == code, (path, code)
                own = headers | {"origin": "http://gym.example", "host": "gym.example"}
                async with client.request(method, url + path, data=b"{}", headers=own) as reply:
                    assert reply.status not in (403, 415, 421), path


@pytest.mark.parametrize(
    ("origin", "is_open"), [("https://attacker.example", False), ("http://localhost", True)]
)
async def test_a_websocket_checks_them(origin: str, is_open: bool) -> None:
    config = load([f"+config_paths=[{CONFIG}]"], env_path=None)

    async def accept(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.close()

    async with inline(config) as gym:
        app = gym.servers["mcqa"].setup_webserver()
        app.add_api_websocket_route("/ws", accept)
        client = TestClient(app, base_url="http://127.0.0.1")
        with contextlib.ExitStack() as stack:
            if not is_open:
                stack.enter_context(pytest.raises(WebSocketDisconnect))
            stack.enter_context(
                client.websocket_connect("/ws", headers={"origin": origin, "host": "127.0.0.1"})
            )


async def test_without_bound_servers_a_test_client_may_use_any_host() -> None:
    bootstrap.set_current(Bootstrap("env", {}, "the-run-token", "cookie-key", []))
    try:
        app = CounterEnvironment.standalone(name="env").setup_webserver()
        assert TestClient(app).get("/").status_code == 200
    finally:
        bootstrap.set_current(None)
