"""An environment that a user wrote, whose `verify` is a plain function and in one case never ends."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_gym.rows.keys import FAILURE_CLASS_KEY
from tests.cluster.placements import PLACEMENTS, keys_of
from tests.e2e.gym_run import GymRun, check_books

APP = """
from scoring import score
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig, BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
)


class Config(BaseResourcesServerConfig):
    right: str


class Request(BaseVerifyRequest):
    question: str


class Computing(SimpleResourcesServer):
    config: Config

    def verify(self, body: Request) -> BaseVerifyResponse:
        reward = score(body.question, self.config.right)
        return BaseVerifyResponse(**body.model_dump(exclude={"question"}), reward=reward)


if __name__ == "__main__":
    Computing.run_webserver()
"""
SCORING = """
def score(question, right):
    while question == "spin":
        pass
    return float(question == right)
"""
FUTURE = "from __future__ import annotations\n"
QUESTIONS = ["yes", "no", "spin", "yes"]


def test_it_runs_in_workers_of_its_server(tmp_path: Path) -> None:
    write_gym(tmp_path, {"computing": APP})
    rows = [{"responses_create_params": {"input": question}, "question": question} for question in QUESTIONS]
    write_rows(tmp_path / "tasks.jsonl", rows)
    overrides = ("+config_paths=[gym.yaml]", "+agent_name=computing_agent", "+input_jsonl_fpath=tasks.jsonl")
    with GymRun(tmp_path, *overrides) as run:
        exit_code, summary = run.finish(60)
    assert exit_code == 3, (run.errors, summary)
    assert {rollout.task for rollout in check_books(run, len(QUESTIONS), 1)} == {2}
    assert {row["_ng_task_index"]: row["reward"] for row in run.rows()} == {0: 1.0, 1: 0.0, 3: 1.0}
    assert [failure[FAILURE_CLASS_KEY] for failure in run.failures()] == ["verifier:verifier_timeout"]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_kind_of_verify_scores_in_every_placement(tmp_path: Path, placement: str) -> None:
    """Plain and `async` functions, each with annotations that are types and annotations that are strings."""
    asynchronous = APP.replace("    def verify", "    async def verify")
    apps = {
        "plain": APP,
        "plain_strings": FUTURE + APP,
        "asynchronous": asynchronous,
        "asynchronous_strings": FUTURE + asynchronous,
    }
    write_gym(tmp_path, apps)
    rows = [
        {
            "responses_create_params": {"input": "x"},
            "question": question,
            "agent_ref": {"type": "responses_api_agents", "name": f"{name}_agent"},
        }
        for name in apps
        for question in ("yes", "no")
    ]
    write_rows(tmp_path / "tasks.jsonl", rows)
    overrides = ("+config_paths=[gym.yaml]", "+input_jsonl_fpath=tasks.jsonl", *keys_of(placement))
    with GymRun(tmp_path, *overrides) as run:
        exit_code, summary = run.finish(120)
    assert exit_code == 0, (run.errors, summary, run.failures())
    rewards = {row["_ng_task_index"]: row["reward"] for row in run.rows()}
    assert [rewards[task] for task in range(len(rows))] == [1.0, 0.0] * len(apps)


def write_gym(folder: Path, apps: Mapping[str, str]) -> None:
    """Write an environment for each app, with an agent of its own, and `gym.yaml`."""
    config: dict[str, Any] = {
        "policy_model": {
            "responses_api_models": {"scripted_model": {"entrypoint": "app.py", "engine": {"policy": "echo"}}}
        }
    }
    for name, app in apps.items():
        server = folder / "resources_servers" / name
        server.mkdir(parents=True)
        (server / "app.py").write_text(app)
        (server / "scoring.py").write_text(SCORING)
        options = {
            "entrypoint": "app.py",
            "right": "yes",
            "verify_timeout_s": 1.0 if len(apps) == 1 else 60.0,
        }
        config[name] = {"resources_servers": {name: options}}
        config[f"{name}_agent"] = {
            "responses_api_agents": {
                "simple_agent": {
                    "entrypoint": "app.py",
                    "resources_server": {"type": "resources_servers", "name": name},
                    "model_server": {"type": "responses_api_models", "name": "policy_model"},
                }
            }
        }
    (folder / "gym.yaml").write_text(yaml.safe_dump(config))


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
