from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.engines.attempts.calls import AttemptCalls
from nemo_gym.rows.identity import RolloutId
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.durable.runs import Durability, DurableRun, find_attempt
from tests.engines.gateway.rollouts import WITH_TOKEN, gateway

RUN = "d0123456789ab"


def count_layers(client: Any) -> int:
    app = client.app
    assert isinstance(app, GymApp)
    return sum(isinstance(layer, AttemptCalls) for layer in app.layers)


def test_a_server_that_knows_no_durable_run_has_no_layer_for_them(tmp_path: Path) -> None:
    assert count_layers(gateway(tmp_path)) == 0


def test_a_run_begins_with_a_proof_in_its_folder_and_ends(tmp_path: Path) -> None:
    client, folder = gateway(tmp_path / "calls"), tmp_path / "out_attempts"
    folder.mkdir()
    told = client.post("/ng-durable-runs", json={"run": RUN, "folder": str(folder)}, headers=WITH_TOKEN)
    assert (folder / told.json()["written"]).exists()
    assert count_layers(client) == 1
    client.post("/ng-durable-runs", json={"run": RUN, "folder": str(folder)}, headers=WITH_TOKEN)
    assert count_layers(client) == 1
    assert count_layers(gateway(tmp_path / "calls")) == 1, "a process that begins later knows the run"
    assert client.post("/ng-durable-runs", json={"run": RUN}, headers=WITH_TOKEN).status_code == 200
    assert count_layers(gateway(tmp_path / "calls")) == 0


def test_a_run_whose_folder_is_gone_is_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "out_attempts"
    folder.mkdir()
    client = gateway(tmp_path / "calls")
    told = client.post("/ng-durable-runs", json={"run": RUN, "folder": str(folder)}, headers=WITH_TOKEN)
    (folder / told.json()["written"]).unlink()
    folder.rmdir()
    assert count_layers(gateway(tmp_path / "calls")) == 0
    assert list((tmp_path / "calls" / "durable_runs").iterdir()) == []


def test_the_route_requires_the_token(tmp_path: Path) -> None:
    assert gateway(tmp_path).post("/ng-durable-runs", json={"run": RUN}).status_code == 401


@pytest.mark.parametrize(
    "body", [{}, {"run": "../x"}, {"run": RUN, "durability": "off"}, {"run": RUN, "more": 1}]
)
def test_an_invalid_run_is_refused(tmp_path: Path, body: dict[str, Any]) -> None:
    answer = gateway(tmp_path).post("/ng-durable-runs", json=body, headers=WITH_TOKEN)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "invalid_run"


def test_a_folder_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    body = {"run": RUN, "folder": str(tmp_path / "absent")}
    answer = gateway(tmp_path / "calls").post("/ng-durable-runs", json=body, headers=WITH_TOKEN)
    error = answer.json()["error"]
    assert error["code"] == "record_unwritable"
    assert str(tmp_path / "absent") in error["message"]


def test_an_attempt_is_found_by_its_session(tmp_path: Path) -> None:
    run = DurableRun(RUN, tmp_path, Durability.PROCESS)
    found = find_attempt(f"{RUN}.3.1.a2", {RUN: run})
    assert found is not None
    assert (found.run, found.name.identity, found.folder) == (run, RolloutId(3, 1), str(tmp_path / "3.1.a2"))
    for session in ("mine", f"{RUN}.../x", f"{RUN}.3.1.a2~1", "d00000000dead.3.1.a2"):
        assert find_attempt(session, {RUN: run}) is None
