"""The head server: configuration without secrets, addresses, and its token."""

from __future__ import annotations

import yaml
from fastapi.testclient import TestClient

from nemo_gym.head.server import HeadServer
from nemo_gym.transport import InMemoryTransport
from nemo_gym.transport.server_client import ServerClient

CONFIG = {
    "head_server": {"host": "127.0.0.1", "port": 11000},
    "policy_api_key": "sk-canary",
    "env": {
        "resources_servers": {
            "counter": {"entrypoint": "app.py", "host": "0.0.0.0", "port": 1, "_ng_replica_ports": [1, 2]}
        }
    },
    "model": {"responses_api_models": {"vllm_model": {"entrypoint": "app.py"}}},
}


def client_of_head() -> TestClient:
    head = HeadServer(
        config=HeadServer.build_server_config("head_server", CONFIG),
        server_client=ServerClient.connect(CONFIG, transport=InMemoryTransport(), token=None),
    )
    assert (head.config.host, head.config.port) == ("127.0.0.1", 11000)
    return TestClient(head.setup_webserver())


def test_the_configuration_is_yaml_in_a_json_string_without_secrets() -> None:
    text = client_of_head().get("/global_config_dict_yaml").json()
    assert "sk-canary" not in text
    shown = yaml.safe_load(text)
    assert shown["env"] == CONFIG["env"]


def test_every_server_with_an_address_is_listed() -> None:
    (listed,) = client_of_head().get("/server_instances").json()
    assert (listed["name"], listed["server_type"], listed["implementation"]) == (
        "env",
        "resources_servers",
        "counter",
    )
    assert listed["url"] == "http://127.0.0.1:1"
    assert listed["replica_urls"] == ["http://127.0.0.1:1", "http://127.0.0.1:2"]


def test_a_faulty_request_for_rollouts_is_refused() -> None:
    refused = client_of_head().post("/rollouts", json={"rows": [{}], "num_repeat": 2})
    assert refused.status_code == 422
    message = refused.json()["error"]["message"]
    assert "num_repeats" in message
    assert "responses_create_params is missing" in message
