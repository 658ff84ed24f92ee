"""Only pages of this machine that exchanged the token reach the viewer."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from nemo_gym.viewer.access import GuardedApp
from tests.viewer.browsing import browsing


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("rollouts")(scope, receive, send)


async def test_the_token_is_exchanged_for_a_cookie() -> None:
    guarded = GuardedApp(answer)
    async with browsing(guarded) as client:
        exchanged = await client.get("/", params={"token": guarded.token}, allow_redirects=False)
        assert (exchanged.status, exchanged.headers["location"]) == (303, "/")
        assert "HttpOnly" in exchanged.headers["set-cookie"]
        assert guarded.token not in exchanged.headers["set-cookie"]
        shown = await client.get("/")
        assert shown.body == b"rollouts"
    assert shown.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")


@pytest.mark.parametrize("query", [{}, {"token": ""}, {"token": "wrong"}])
async def test_without_the_token_nothing_is_shown(query: dict[str, str]) -> None:
    async with browsing(GuardedApp(answer)) as client:
        assert (await client.get("/api/runs", params=query)).status == 401
        cookie = {"cookie": f"ng_view_{client.port}=wrong"}
        assert (await client.get("/api/runs", headers=cookie)).status == 401


async def test_a_cookie_of_another_viewer_is_refused() -> None:
    first, second = GuardedApp(answer), GuardedApp(answer)
    async with browsing(first) as client:
        exchanged = await client.get("/", params={"token": first.token}, allow_redirects=False)
        secret = exchanged.headers["set-cookie"].partition("=")[2].partition(";")[0]
    async with browsing(second) as client:
        cookie = {"cookie": f"ng_view_{client.port}={secret}"}
        assert (await client.get("/", headers=cookie)).status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.example"}, 421), ({"origin": "https://evil.example"}, 403)],
    ids=["host", "origin"],
)
async def test_foreign_pages_are_refused_even_with_the_cookie(headers: dict[str, str], status: int) -> None:
    guarded = GuardedApp(answer)
    async with browsing(guarded) as client:
        assert (await client.get("/", params={"token": guarded.token})).status == 200
        assert (await client.get("/", headers=headers)).status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_only_reading_is_allowed(method: str) -> None:
    guarded = GuardedApp(answer)
    async with browsing(guarded) as client:
        await client.get("/", params={"token": guarded.token})
        assert (await client.send(method, "/")).status == 405
