"""`gym ctl` on real processes: an engine, the gym's servers, a collection."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine._distributions import parse_distribution
from nemo_gym.mock_engine.process import EngineProcess
from tests.e2e.gym_run import GymRun, check_books

ENVIRONMENT = "example_session_state_mgmt"
CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
    "responses_api_models/vllm_model/configs/vllm_model.yaml"
)
TASKS, REPEATS = 60, 4


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    with EngineProcess(EngineOptions(latency_s=parse_distribution("uniform:0.2,0.3"))) as engine:
        yield engine


def build_run(folder: Path, url: str, *overrides: str) -> GymRun:
    examples = PARENT_DIR / f"resources_servers/{ENVIRONMENT}/data/example.jsonl"
    example = json.loads(examples.read_text().splitlines()[0])
    tasks = folder / "tasks.jsonl"
    tasks.write_text("".join(json.dumps({**example, "id": n}) + "\n" for n in range(TASKS)))
    return GymRun(
        folder,
        f"+config_paths=[{CONFIGS}]",
        f"+policy_base_url={url}",
        "+policy_api_key=none",
        "+policy_model_name=mock",
        f"+agent_name={ENVIRONMENT}_simple_agent",
        f"+input_jsonl_fpath={tasks}",
        f"+num_repeats={REPEATS}",
        "+num_samples_in_parallel=8",
        *overrides,
    )


def ctl(run: GymRun, *arguments: str) -> Any:
    """Return the answer of `gym ctl`, typed in the folder of the run."""
    command = [str(Path(sys.executable).parent / "gym"), "ctl", *arguments, "--json"]
    done = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def wait_until(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("placement", ["process", "inline"])
def test_a_run_is_paused_looked_at_retuned_and_resumed(
    placement: str, tmp_path: Path, engine: EngineProcess
) -> None:
    with build_run(tmp_path, engine.base_url, f"+placement={placement}") as run:
        run.wait_for(10)
        assert "gym ctl" in run.errors, "the progress line names the command"
        assert ctl(run, "pause", "--dry-run")["phase"] == "running"
        paused = ctl(run, "pause")
        assert paused["phase"] == "paused"
        wait_until(lambda: not ctl(run, "status")[0]["in_flight"])
        settled = ctl(run, "status", "out/rollouts.jsonl")[0]["counts"]["settled"]
        assert 10 <= settled < TASKS * REPEATS
        assert ctl(run, "set", "--concurrency", "1")["changes"] == ["num_samples_in_parallel: 8 -> 1"]
        assert ctl(run, "status")[0]["counts"]["settled"] == settled, "nothing starts during a pause"
        assert ctl(run, "resume", "rollouts")["phase"] == "running"
        wait_until(lambda: ctl(run, "status")[0]["counts"]["settled"] > settled)
        assert len(ctl(run, "status")[0]["in_flight"]) <= 1
        ctl(run, "set", "--concurrency", "16")
        exit_code, summary = run.finish(120)
    assert exit_code == 0, run.errors
    assert check_books(run, TASKS, REPEATS) == set()
    assert [event["verb"] for event in summary["control"]] == ["pause", "set", "resume", "set"]
    events = run.output.with_name("rollouts_events.jsonl").read_text().splitlines()
    assert [json.loads(line)["by"] for line in events] == ["gym ctl"] * 4
    manifest = json.loads(run.output.with_name("rollouts_run.json").read_text())
    assert len(manifest["starts"][-1]["control"]) == 4
    assert not run.output.with_name("rollouts_control.json").exists()


@contextmanager
def serve_engine(port: int = 0) -> Iterator[str]:
    """Serve an engine at `port` until the end of the block, and yield its base URL."""
    command = [
        str(Path(sys.executable).parent / "ng_mock_engine"),
        f"+port={port}",
        "+latency_s=uniform:0.3:0.5",
    ]
    with subprocess.Popen([*command, "+json=true"], stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout is not None
        try:
            yield str(json.loads(engine.stdout.readline())["base_url"])
        finally:
            engine.kill()


def test_an_engine_is_redeployed_during_a_pause_and_no_attempt_fails(tmp_path: Path) -> None:
    """The pause is longer than the deadline of a rollout."""
    first = ExitStack()
    with ExitStack() as stack:
        url = first.enter_context(serve_engine())
        run = build_run(tmp_path, url, "+rollout_timeout_s=6", "+stop_after_identical_failures=2")
        stack.enter_context(run)
        run.wait_for(8)
        ctl(run, "pause")
        first.close()
        time.sleep(8.0)
        with serve_engine(urlsplit(url).port or 0):
            assert ctl(run, "status")[0]["phase"] == "paused"
            ctl(run, "resume")
            ctl(run, "set", "--concurrency", "32")
            exit_code, _ = run.finish(120)
    assert exit_code == 0, run.errors
    assert run.failures() == []
    assert check_books(run, TASKS, REPEATS) == set()
