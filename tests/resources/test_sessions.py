"""A resources server's session is closed once, by either protocol and by whichever request comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from fastapi import Body, FastAPI, HTTPException, Request
from fastapi.testclient import TestClient
from pydantic import PrivateAttr

from nemo_gym.base_resources_server import (
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ResourcesCloseSessionRequest,
    ResourcesCloseSessionResponse,
    ResourcesSeedSessionRequest,
    ResourcesSeedSessionResponse,
    SimpleResourcesServer,
)

EPISODE = {"rollout_id": "3-0", "attempt": 0}
OPEN = {"resources_session_id": "mine", "episode_id": EPISODE, "task_id": {"taskset": "s", "task_id": "t"}}
CLOSE = {"resources_session_id": "mine", "episode_id": EPISODE}


class Rooms(SimpleResourcesServer):
    """Keeps a room per session, as both kinds of environments do."""

    _open: dict[str, Any] = PrivateAttr(default_factory=dict)
    _closed: list[str] = PrivateAttr(default_factory=list)
    _released: list[str] = PrivateAttr(default_factory=list)
    _failures_left: int = PrivateAttr(default=0)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.get("/closed")(self.closed)
        return app

    async def closed(self) -> list[str]:
        return self._closed

    async def seed_session(  # type: ignore[override]
        self, body: ResourcesSeedSessionRequest | BaseSeedSessionRequest
    ) -> ResourcesSeedSessionResponse | BaseSeedSessionResponse:
        if not isinstance(body, ResourcesSeedSessionRequest):
            return BaseSeedSessionResponse()
        if body.task_data.get("broken"):
            raise HTTPException(422, "no such room")
        self._open[body.resources_session_id] = body.task_data
        return ResourcesSeedSessionResponse(resources_session_id=body.resources_session_id)

    async def close_resources_session(
        self, body: ResourcesCloseSessionRequest
    ) -> ResourcesCloseSessionResponse:
        if self._failures_left:
            self._failures_left -= 1
            raise HTTPException(503, "the room is busy")
        self._open.pop(body.resources_session_id, None)
        self._closed.append(body.resources_session_id)
        return ResourcesCloseSessionResponse(resources_session_id=body.resources_session_id)

    async def release_session(self, session_id: str) -> None:
        self._released.append(session_id)

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)


@pytest.fixture
def server() -> Rooms:
    rooms = Rooms.standalone()
    assert isinstance(rooms, Rooms)
    return rooms


@pytest.fixture
def client(server: Rooms) -> Iterator[TestClient]:
    with TestClient(server.setup_webserver()) as client:
        yield client


def test_an_environment_server_opens_and_closes_by_its_own_name(server: Rooms, client: TestClient) -> None:
    opened = client.post("/seed_session", json=OPEN | {"task_data": {"room": 5}})
    assert opened.json() == {"resources_session_id": "mine", "sandbox_access": None, "resources_tools": None}
    assert server._open == {"mine": {"room": 5}}
    first, again = (client.post("/close_session", json=CLOSE) for _ in range(2))
    assert first.json() == again.json() == {"resources_session_id": "mine"}
    assert server._closed == ["mine"]
    assert len(server._released) == 1


def test_an_agent_opens_and_closes_without_a_name(server: Rooms, client: TestClient) -> None:
    client.post("/seed_session", json={"responses_create_params": {"input": "x"}})
    assert client.post("/close_session", json={}).json()["was_open"] is True
    assert client.post("/close_session", json={}).json()["was_open"] is False
    assert server._closed == []
    assert len(server._released) == 1


def test_a_close_without_the_name_closes_what_the_environment_server_opened(
    server: Rooms, client: TestClient
) -> None:
    client.post("/seed_session", json=OPEN)
    assert client.post("/close_session", json={}).json()["was_open"] is True
    assert client.post("/close_session", json=CLOSE).json() == {"resources_session_id": "mine"}
    assert server._closed == ["mine"]


def test_a_session_whose_opening_failed_can_be_closed(server: Rooms, client: TestClient) -> None:
    assert client.post("/seed_session", json=OPEN | {"task_data": {"broken": True}}).status_code == 422
    assert client.post("/close_session", json=CLOSE).status_code == 200
    assert server._closed == ["mine"]


def test_a_close_that_failed_can_be_repeated(server: Rooms, client: TestClient) -> None:
    client.post("/seed_session", json=OPEN)
    server._failures_left = 1
    assert client.post("/close_session", json=CLOSE).status_code == 503
    assert client.post("/close_session", json=CLOSE).status_code == 200
    assert server._closed == ["mine"]


async def stop(server: SimpleResourcesServer) -> None:
    async with server.alive():
        pass


def test_sessions_that_are_open_when_the_server_stops_are_closed(server: Rooms) -> None:
    with TestClient(server.setup_webserver()) as client:
        client.post("/seed_session", json=OPEN)
    asyncio.run(stop(server))
    assert server._closed == ["mine"]


@pytest.mark.parametrize("wrong", [{"resources_session_id": ""}, {"resources_session_id": "mine"}])
def test_an_incomplete_request_to_close_is_refused(client: TestClient, wrong: dict[str, str]) -> None:
    answer = client.post("/close_session", json=wrong)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "invalid_request"


def test_every_answer_to_a_cookie_has_a_cookie(client: TestClient) -> None:
    """A client that carries only the latest answer's cookies keeps its session."""
    cookies = dict(client.post("/seed_session", json=OPEN).cookies)
    for _ in range(3):
        client.cookies.clear()
        answer = client.get("/closed", headers={"cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())})
        assert dict(answer.cookies) == cookies
        cookies = dict(answer.cookies)


class Boxes(SimpleResourcesServer):
    """Keeps a box per session and closes either protocol's session itself, by the request or by the body."""

    _closed: list[str] = PrivateAttr(default_factory=list)

    async def seed_session(  # type: ignore[override]
        self, body: ResourcesSeedSessionRequest | BaseSeedSessionRequest
    ) -> dict[str, bool]:
        return {}

    async def close_resources_session(  # type: ignore[override]
        self, request: Request, body: Annotated[dict[str, Any] | None, Body()] = None
    ) -> dict[str, bool]:
        session = request.session.pop("session_id")
        self._closed.append(body["resources_session_id"] if body else f"of {session}")
        return {"closed": True}

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)


@pytest.fixture
def boxes() -> Boxes:
    server = Boxes.standalone()
    assert isinstance(server, Boxes)
    return server


ROW = {"responses_create_params": {"input": "x"}}


@pytest.mark.parametrize(("opening", "closing"), [(ROW, {}), (OPEN, CLOSE), (OPEN, {})])
def test_an_author_who_takes_the_request_closes_either_protocols_session_once(
    boxes: Boxes, opening: dict[str, Any], closing: dict[str, Any]
) -> None:
    with TestClient(boxes.setup_webserver()) as client:
        client.post("/seed_session", json=opening)
        assert client.post("/close_session", json=closing).json() == {"closed": True}
        assert len(boxes._closed) == 1
        assert boxes._closed[0].startswith("mine" if opening is OPEN else "of ")
        assert client.post("/close_session", json=closing).json() == {"closed": True}
        assert len(client.cookies) == 1


@pytest.mark.parametrize("opening", [ROW, OPEN])
def test_a_session_that_no_request_closes_is_closed_by_the_author_when_the_server_stops(
    boxes: Boxes, opening: dict[str, Any]
) -> None:
    with TestClient(boxes.setup_webserver()) as client:
        client.post("/seed_session", json=opening)
    assert boxes._closed == []
    asyncio.run(stop(boxes))
    assert len(boxes._closed) == 1
