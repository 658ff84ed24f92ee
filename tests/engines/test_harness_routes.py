from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient

from nemo_gym.engines.harness_routes import anthropic_models
from nemo_gym.mock_engine import EngineOptions, MockEngine
from tests.engines.gateway.rollouts import bearer, gateway, opened
from tests.engines.upstreams import vllm_over

CLAUDE = {"anthropic-version": "2023-06-01"}


def client() -> TestClient:
    return TestClient(vllm_over(MockEngine(EngineOptions(model="mock")).app).setup_webserver())


def test_models_have_the_form_of_the_caller_s_api() -> None:
    assert client().get("/v1/models").json()["object"] == "list"
    listed = client().get("/v1/models", headers=CLAUDE).json()
    entry = {"type": "model", "id": "mock", "display_name": "mock", "created_at": "1970-01-01T00:00:00Z"}
    assert listed == {"data": [entry], "has_more": False, "first_id": "mock", "last_id": "mock"}
    assert anthropic_models({"data": []})["first_id"] is None


def test_any_name_is_the_policy() -> None:
    assert client().get("/v1/models/claude-opus-4").json()["id"] == "claude-opus-4"
    named = client().get("/v1/models/org/model", headers=CLAUDE).json()
    assert (named["type"], named["id"]) == ("model", "org/model")


def test_an_agent_can_probe_its_base_url(tmp_path: Path) -> None:
    probed = gateway(tmp_path)
    rollout = opened(probed, rollout_id="r")
    for path in ("/", "/v1/models", "/ng-rollout/r", "/ng-rollout/r/", "/ng-rollout/r/v1/models"):
        answer = probed.head(path, headers=bearer(rollout))
        assert (answer.status_code, answer.content) == (200, b""), path
    assert probed.head("/ng-rollout/other/", headers=bearer(rollout)).status_code == 403


def test_a_key_opens_the_entry_of_a_model(tmp_path: Path) -> None:
    probed = gateway(tmp_path)
    headers = bearer(opened(probed))
    assert probed.get("/v1/models/claude-haiku", headers=headers).json()["id"] == "claude-haiku"
