"""A model server in front of the engine stub, whose rollouts are opened over its control routes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.engines.event_streams import EventStreams
from nemo_gym.engines.gateway.calls import TICK_S, RolloutCalls
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.names import TOKEN_HEADER
from nemo_gym.serving.app import GymApp
from tests.engines.upstreams import App, vllm_over

TOKEN = "run-token"
WITH_TOKEN = {TOKEN_HEADER: TOKEN}
HELLO = {"input": "hello"}


def gateway(
    folder: Path,
    app: App | None = None,
    *,
    replica: int = 0,
    tick_s: float = TICK_S,
    is_observed: bool = False,
    **options: Any,
) -> TestClient:
    """A client of a model server in a run with the token `TOKEN`, whose records are in `folder`."""
    engine = app or MockEngine(EngineOptions(model="mock", policy="tools")).app
    given = Bootstrap("policy_model", {}, TOKEN, "cookie key", [], replica)
    before = bootstrap.current()
    bootstrap.set_current(given)
    try:
        server = vllm_over(engine, name="policy_model", **options)
        server.server_client.global_config_dict = {
            "model_call_capture_dir": str(folder),
            "observability_enabled": is_observed,
        }
        app = server.setup_webserver()
        assert isinstance(app, GymApp)
        for layer in app.layers:
            if isinstance(layer, RolloutCalls | EventStreams):
                layer.tick_s = tick_s
        return TestClient(app)
    finally:
        bootstrap.set_current(before)


def opened(client: TestClient, **terms: Any) -> dict[str, str]:
    """Open a rollout and return the answer."""
    answer = client.post("/ng-rollouts", json=terms, headers=WITH_TOKEN)
    assert answer.status_code == 200, answer.text
    body: dict[str, str] = answer.json()
    return body


def bearer(rollout: dict[str, str]) -> dict[str, str]:
    return {"authorization": f"Bearer {rollout['key']}"}


def record_of(client: TestClient, rollout: dict[str, str]) -> dict[str, Any]:
    answer = client.get(f"/ng-rollouts/{rollout['rollout_id']}", headers=WITH_TOKEN)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body
