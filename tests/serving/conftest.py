"""A server outside of a run, the token of a run, and an app without routes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi import FastAPI

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.base import SimpleServer
from tests.serving.environments import CounterEnvironment


@pytest.fixture
def environment() -> CounterEnvironment:
    server = CounterEnvironment.standalone(name="env")
    assert isinstance(server, CounterEnvironment)
    return server


@pytest.fixture
def run_with_token() -> Iterator[None]:
    """This process belongs to a run whose token is `the-run-token`."""
    bootstrap.set_current(Bootstrap("env", {}, "the-run-token", "cookie-key", []))
    yield
    bootstrap.set_current(None)


class Plain(SimpleServer):
    def setup_webserver(self) -> FastAPI:
        return self.new_app()


@pytest.fixture
def app() -> GymApp:
    app = Plain.standalone().setup_webserver()
    assert isinstance(app, GymApp)
    return app
