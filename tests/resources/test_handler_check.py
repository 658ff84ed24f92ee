"""Handlers that no tool call can reach are refused at start, and those of other styles are not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Body, Depends, FastAPI, File, Header, Query, Request, UploadFile
from fastapi.testclient import TestClient
from pydantic import BaseModel

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import ConfigError
from nemo_gym.resources.handler_check import refuse_unusable_handlers

Handler = Callable[..., Any]


class Guess(BaseModel):
    digits: str


@dataclass
class Point:
    x: int


async def body_and_request(request: Request, body: Guess) -> str:
    return body.digits


async def a_dict(body: dict[str, Any]) -> str:
    return str(body)


async def any_body(request: Request, body: Any = Body()) -> str:
    return str(body)


async def untyped_with_body(body=Body()) -> str:  # type: ignore[no-untyped-def]
    return str(body)


async def embedded(digits: Annotated[str, Body(embed=True)]) -> str:
    return digits


async def two_bodies(digits: Annotated[str, Body()], code: Annotated[str, Body()]) -> str:
    return digits + code


async def optional_model(body: Guess | None = None) -> str:
    return str(body)


async def a_dataclass(point: Point) -> str:
    return str(point.x)


async def only_request(request: Request) -> str:
    return str(await request.body())


async def nothing() -> str:
    return "12"


def not_async(body: Guess) -> str:
    return body.digits


async def wanted_query(page: Annotated[int, Query()], body: Guess) -> str:
    return str(page)


async def wanted_query_by_default(body: Guess, page: int = Query()) -> str:
    return str(page)


async def a_header(body: Guess, x_key: Annotated[str, Header()]) -> str:
    return x_key


async def read_state(request: Request) -> dict[str, Any]:
    return dict(request.headers)


async def a_dependency(body: Guess, state: Annotated[dict[str, Any], Depends(read_state)]) -> str:
    return str(state)


async def an_upload(file: Annotated[UploadFile, File()]) -> str:
    return str(file.filename)


async def an_option(body: Guess, verbose: bool = False) -> str:
    return str(verbose)


class CallableHandler:
    async def __call__(self, body: Guess) -> str:
        return body.digits


def app_of(handler: Handler, path: str = "/guess") -> FastAPI:
    app = FastAPI()
    app.post(path)(handler)
    return app


@pytest.mark.parametrize(
    "handler",
    [
        body_and_request, a_dict, any_body, untyped_with_body, embedded, two_bodies, optional_model, a_dataclass,
        only_request, nothing, not_async, wanted_query, wanted_query_by_default, a_header, a_dependency, an_upload,
        an_option, CallableHandler(), partial(body_and_request),
    ],
)  # fmt: skip
def test_handlers_of_many_styles_are_accepted(handler: Handler) -> None:
    refuse_unusable_handlers(app_of(handler))


async def model_forgotten(self, request, digits: str) -> str:  # type: ignore[no-untyped-def]
    return digits


async def untyped_body(request: Request, body) -> str:  # type: ignore[no-untyped-def]
    return str(body)


async def untyped_request(request, body: Guess) -> str:  # type: ignore[no-untyped-def]
    return str(request)


async def scalars(digits: str, tries: int) -> str:
    return digits * tries


async def scalar_beside_a_model(body: Guess, tries: int) -> str:
    return body.digits * tries


async def keywords(**arguments: Any) -> str:
    return str(arguments)


async def typed_as_any(body: Any) -> str:
    return str(body)


async def lone_text(digits: Annotated[str, Body()]) -> str:
    return digits


@pytest.mark.parametrize(
    ("handler", "told", "remedy"),
    [
        (model_forgotten, "`self`, `request`, `digits: str`", "with the fields `digits: str`"),
        (untyped_body, "FastAPI reads `body` from the query", "Write `body: UntypedBodyRequest`"),
        (untyped_request, "FastAPI reads `request` from the query", "Write `request: Request`"),
        (scalars, "`digits: str`, `tries: int`", "`digits: str; tries: int`"),
        (scalar_beside_a_model, "FastAPI reads `tries: int`", "`tries: int`"),
        (keywords, "arguments", "is a pydantic model of the arguments"),
        (typed_as_any, "`body: ", "Write `body: TypedAsAnyRequest`"),
        (lone_text, "reads the whole body as `digits`", "Body(embed=True)"),
    ],
)
def test_a_handler_that_refuses_every_call_is_refused(handler: Handler, told: str, remedy: str) -> None:
    app = app_of(handler)
    answered = TestClient(app).post("/guess", json={"digits": "12", "tries": 2, "body": {}, "arguments": {}})
    assert answered.status_code == 422, "the check is right"
    with pytest.raises(ConfigErrors) as caught:
        refuse_unusable_handlers(app)
    (problem,) = caught.value.problems
    assert problem.where is not None
    assert problem.where.source.endswith("test_handler_check.py")
    assert problem.where.line == handler.__code__.co_firstlineno
    assert told in problem.message
    assert "POST /guess" in problem.message
    assert remedy in str(problem.remedy)


def test_all_handlers_are_reported_at_once_those_of_routers_too() -> None:
    app, router = app_of(untyped_body), APIRouter()
    router.post("/peek")(scalars)
    app.include_router(router, prefix="/tools")
    with pytest.raises(ConfigErrors) as caught:
        refuse_unusable_handlers(app)
    assert len(caught.value.problems) == 2


def test_handlers_of_other_methods_and_hidden_routes_are_not_checked() -> None:
    app = FastAPI()
    app.get("/search")(scalars)
    app.post("/internal", include_in_schema=False)(scalars)
    refuse_unusable_handlers(app)


def test_a_handler_that_never_gets_its_arguments_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async def defaults(digits: str = "", tries: int = 1) -> str:
        return digits * tries

    with caplog.at_level(logging.WARNING):
        refuse_unusable_handlers(app_of(defaults))
    assert "POST /guess gets no arguments: FastAPI reads digits, tries from the query" in caplog.text


class Lockbox(SimpleResourcesServer):
    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/peek")(self.peek)
        return app

    async def peek(self) -> str:
        return "dark"

    async def guess(self, body: Guess) -> str:
        return body.digits

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**dict(body), reward=self._reward())

    def _reward(self) -> float:
        return 0.0


class Mute(Lockbox):
    def setup_webserver(self) -> FastAPI:
        super().setup_webserver()
        return None  # type: ignore[return-value]


class Unverified(Lockbox):
    async def verify(self, body):  # type: ignore[no-untyped-def]
        return BaseVerifyResponse(**dict(body), reward=0.0)


def test_methods_without_a_route_are_listed_with_their_places() -> None:
    listed = TestClient(Lockbox.standalone().finish_app()).get("/_ng/posted").json()
    assert list(listed["methods"]) == ["guess"]
    assert listed["methods"]["guess"].partition("test_handler_check.py:")[2].isdecimal()
    assert "/peek" in listed["paths"]


def test_an_app_that_is_not_returned_is_refused_with_its_place() -> None:
    with pytest.raises(
        ConfigError, match=r"test_handler_check.py:\d+: `setup_webserver` of Mute returned None"
    ):
        Mute.standalone().finish_app()


def test_an_untyped_verify_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    Unverified.standalone().finish_app()
    assert "`verify` cannot be called by POST /verify" in caplog.text
    assert "Write `body: VerifyRequest`" in caplog.text
