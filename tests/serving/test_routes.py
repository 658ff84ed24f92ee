"""Direct routes return the same responses as FastAPI."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import Body, Depends, FastAPI, Query, Request, Response
from fastapi.testclient import TestClient

from nemo_gym.serving.app import GymApp
from nemo_gym.serving.routes import DirectRoute, DirectTable, build_json_response
from tests.serving.endpoints import Point, echo


class Named(Point):
    name: str = "n"


async def subclass(body: Point) -> Point:
    return Named(x=body.x)


async def with_request(request: Request, body: Point = Body()) -> dict[str, Any]:
    return {"x": body.x, "session": bool(request.session["session_id"]), "raw": len(await request.body())}


async def with_response(response: Response, body: Point) -> dict[str, int]:
    response.set_cookie("seen", "yes")
    response.status_code = 201
    return {"x": body.x}


async def own_response(body: Point) -> Response:
    return Response(b"raw", 202, media_type="text/plain")


async def nothing() -> None:
    return None


async def a_string(body: Point) -> str:
    return "text"


async def with_query(body: Point, limit: int = Query(3)) -> dict[str, int]:
    return {"limit": limit}


async def with_dependency(value: int = Depends(lambda: 7)) -> dict[str, int]:
    return {"value": value}


def synchronous(body: Point) -> dict[str, int]:
    return {"x": body.x}


DIRECT = [echo, subclass, with_request, with_response, own_response, nothing, a_string]
THROUGH_FASTAPI = [with_query, with_dependency, synchronous]


@pytest.mark.parametrize("endpoint", DIRECT + THROUGH_FASTAPI, ids=lambda endpoint: endpoint.__name__)
def test_an_endpoint_answers_the_same_either_way(endpoint: Any, app: GymApp) -> None:
    plain = FastAPI()
    plain.post("/x")(endpoint)
    app.post("/x")(endpoint)
    body = {"x": 3, "schema": "z"}
    ours = TestClient(app).post("/x", json=body)
    assert ours.status_code < 300
    if endpoint is with_request:  # a plain app has no sessions
        assert ours.json() == {"x": 3, "session": True, "raw": len(b'{"x":3,"schema":"z"}')}
        return
    theirs = TestClient(plain).post("/x", json=body)
    assert ours.status_code == theirs.status_code
    assert ours.headers["content-type"] == theirs.headers["content-type"]
    assert "seen=yes" in ours.headers.get("set-cookie", "") or endpoint is not with_response
    if endpoint is subclass:
        assert ours.json() == {"x": 3, "schema": "s", "name": "n"}  # FastAPI would drop the subclass's field
    else:
        assert ours.content == theirs.content


@pytest.mark.parametrize("endpoint", DIRECT, ids=lambda endpoint: endpoint.__name__)
def test_plain_endpoints_are_answered_directly(endpoint: Any) -> None:
    route = DirectRoute("/x", endpoint, methods=["POST"])
    assert ("POST", "/x") in DirectTable([route]).handlers


@pytest.mark.parametrize("endpoint", THROUGH_FASTAPI, ids=lambda endpoint: endpoint.__name__)
def test_endpoints_that_need_fastapi_get_it(endpoint: Any) -> None:
    assert DirectRoute("/x", endpoint, methods=["POST"]).direct is None


def test_a_result_becomes_a_json_response_and_a_response_stays_one() -> None:
    assert build_json_response({"a": 1}).body == b'{"a":1}'
    ready = Response("text")
    assert build_json_response(ready) is ready
