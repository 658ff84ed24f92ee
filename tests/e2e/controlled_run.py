"""A collection that tests control by HTTP, as `gym ctl` does, without a process for each request."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym import PARENT_DIR
from tests.e2e.gym_run import GymRun

ENVIRONMENT = "example_session_state_mgmt"
AGENT = f"{ENVIRONMENT}_simple_agent"
_ENGINE = "++policy_model.responses_api_models.scripted_model.engine"
_CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
    "responses_api_models/scripted_model/configs/scripted_model.yaml"
)


class ControlAnswer(NamedTuple):
    """The answer to a request of control."""

    status: int
    body: dict[str, Any]

    @property
    def code(self) -> str | None:
        """The code of a refusal; None for an accepted request."""
        error = self.body.get("error")
        return error["code"] if error else None


def build_scripted_run(folder: Path, tasks: int, repeats: int, latency_s: float, *overrides: str) -> GymRun:
    """A run whose policy answers after `latency_s` seconds, four times a rollout, without an engine beside it."""
    examples = PARENT_DIR / f"resources_servers/{ENVIRONMENT}/data/example.jsonl"
    example = json.loads(examples.read_text().splitlines()[0])
    rows = folder / "tasks.jsonl"
    rows.write_text("".join(json.dumps({**example, "id": number}) + "\n" for number in range(tasks)))
    return GymRun(
        folder,
        f"+config_paths=[{_CONFIGS}]",
        f"{_ENGINE}.policy=script",
        f"{_ENGINE}.script=configs/demo/counter_script.yaml",
        f"{_ENGINE}.latency_s={latency_s}",
        f"+agent_name={AGENT}",
        f"+input_jsonl_fpath={rows}",
        f"+num_repeats={repeats}",
        *overrides,
    )


def read_address(run: GymRun) -> dict[str, Any] | None:
    """Return what the run announces: its address and its token; None before its start and after its end."""
    try:
        told: dict[str, Any] = json.loads(run.output.with_name("rollouts_control.json").read_bytes())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return told


def ask(run: GymRun, verb: str = "", **body: Any) -> ControlAnswer:
    """Send a request to a run; without a verb for its state. Raises `OSError` without an answer."""
    told = read_address(run)
    if told is None:
        raise ConnectionRefusedError("the run announces no address")
    request = urllib.request.Request(
        f"{told['url']}/_ng/runs/{told['run']}" + (f"/{verb}" if verb else ""),
        json.dumps(body).encode() if verb else None,
        {"x-ng-token": told["token"], "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return ControlAnswer(answer.status, json.loads(answer.read()))
    except urllib.error.HTTPError as refused:
        return ControlAnswer(refused.code, json.loads(refused.read()))
