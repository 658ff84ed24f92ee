"""Routes of an app: precedence, an author's middleware, and the schema."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.testclient import TestClient

from nemo_gym.serving.app import GymApp
from tests.serving.endpoints import echo


def test_an_earlier_catch_all_route_keeps_its_precedence(app: GymApp) -> None:
    async def catch_all(path: str) -> dict[str, str]:
        return {"caught": path}

    app.post("/{path}")(catch_all)
    app.post("/x")(echo)
    assert TestClient(app).post("/x", json={"x": 1}).json() == {"caught": "x"}


def test_a_later_catch_all_route_gets_the_rest(app: GymApp) -> None:
    async def catch_all(path: str) -> dict[str, str]:
        return {"caught": path}

    app.post("/x")(echo)
    app.post("/{path}")(catch_all)
    client = TestClient(app)
    assert client.post("/x", json={"x": 1}).json()["x"] == 1
    assert client.post("/y", json={"x": 1}).json() == {"caught": "y"}


def test_middleware_of_an_author_sees_every_request(app: GymApp) -> None:
    from starlette.middleware.base import BaseHTTPMiddleware

    async def stamp(request: Request, call_next: Any) -> Any:
        answer = await call_next(request)
        answer.headers["x-stamp"] = "1"
        return answer

    app.post("/x")(echo)
    app.add_middleware(BaseHTTPMiddleware, dispatch=stamp)
    assert TestClient(app).post("/x", json={"x": 1}).headers["x-stamp"] == "1"


def test_openapi_describes_direct_routes(app: GymApp) -> None:
    app.post("/x")(echo)
    schema = TestClient(app).get("/openapi.json").json()
    assert schema["paths"]["/x"]["post"]["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Point"
    }


def test_an_unknown_route_is_a_404(app: GymApp) -> None:
    assert TestClient(app).post("/nowhere").status_code == 404
    assert TestClient(app).get("/_ng/statistics").status_code == 404
