"""An environment that a user wrote, whose `verify` is a plain function and in one case never ends."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from nemo_gym.rollouts.run.answer import NG_FAILURE_CLASS_KEY
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
QUESTIONS = ["yes", "no", "spin", "yes"]


def test_it_runs_in_workers_of_its_server(tmp_path: Path) -> None:
    folder = tmp_path / "resources_servers" / "computing"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(APP)
    (folder / "scoring.py").write_text(SCORING)
    config = {
        "computing": {
            "resources_servers": {
                "computing": {"entrypoint": "app.py", "right": "yes", "verify_timeout_s": 1.0}
            }
        },
        "agent": {
            "responses_api_agents": {
                "simple_agent": {
                    "entrypoint": "app.py",
                    "resources_server": {"type": "resources_servers", "name": "computing"},
                    "model_server": {"type": "responses_api_models", "name": "policy_model"},
                }
            }
        },
        "policy_model": {
            "responses_api_models": {"scripted_model": {"entrypoint": "app.py", "engine": {"policy": "echo"}}}
        },
    }
    (tmp_path / "gym.yaml").write_text(yaml.safe_dump(config))
    rows = [{"responses_create_params": {"input": question}, "question": question} for question in QUESTIONS]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    overrides = ("+config_paths=[gym.yaml]", "+agent_name=agent", "+input_jsonl_fpath=tasks.jsonl")
    with GymRun(tmp_path, *overrides) as run:
        exit_code, summary = run.finish(60)
    assert exit_code == 3, (run.errors, summary)
    assert {rollout.task for rollout in check_books(run, len(QUESTIONS), 1)} == {2}
    assert {row["_ng_task_index"]: row["reward"] for row in run.rows()} == {0: 1.0, 1: 0.0, 3: 1.0}
    assert [failure[NG_FAILURE_CLASS_KEY] for failure in run.failures()] == ["verifier:verifier_timeout"]
