"""Seconds from a request of control to its effect at the engine, whose step takes half a second.

A run of single calls keeps 16 of them in flight. `pause` and `drain`: until the last call that still starts; `resume`
and `set`: until the first call beyond those before; `cancel`: until the engine sees its client leave.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from perf.measure import REPOSITORY, Figures, median_of
from perf.noting_engine import NotingEngine, NotingHandler, serve

_IN_FLIGHT, _STEP_S, _PLANNED = 16, 0.5, 4000
_QUIET_S = 2.0
"""Seconds after which no effect comes any more."""
_ENVIRONMENT = "mcqa"
_E2E = "from nemo_gym.cli.e2e_collect_rollouts import main; main()"


def run(runs: int) -> Figures:
    """Return the medians of `runs` runs in each placement."""
    return {placement: median_of(runs, partial(_measure, placement)) for placement in ("process", "inline")}


def _measure(placement: str) -> Figures:
    with serve(_Engine, _Handler) as engine, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with subprocess.Popen(_build_command(engine, folder, placement), cwd=folder) as process:
            try:
                return _control(engine, folder / "rollouts_control.json")
            finally:
                process.kill()


def _control(engine: _Engine, announced: Path) -> Figures:
    _wait_until(lambda: len(engine.open) >= _IN_FLIGHT and announced.exists())
    told = json.loads(announced.read_bytes())

    def ask(verb: str, **body: Any) -> dict[str, Any]:
        url = f"{told['url']}/_ng/runs/{told['run']}" + (f"/{verb}" if verb else "")
        headers = {"x-ng-token": told["token"], "content-type": "application/json"}
        data = json.dumps(body).encode() if verb else None
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:
            state: dict[str, Any] = json.loads(answer.read())
            return state

    ask("")  # the first request imports the server of control
    figures = {}
    sent = time.monotonic()
    ask("pause")
    figures["pause_s"] = _last_start(engine, sent)
    sent = time.monotonic()
    ask("resume")
    figures["resume_s"] = _first_start(engine, sent)
    _wait_until(lambda: len(engine.open) >= _IN_FLIGHT)
    sent = time.monotonic()
    ask("set", num_samples_in_parallel=2 * _IN_FLIGHT)
    _wait_until(lambda: len(engine.open) > _IN_FLIGHT)
    figures["set_s"] = time.monotonic() - sent
    _wait_until(lambda: len(engine.open) >= 2 * _IN_FLIGHT - 2)
    named = list(ask("")["in_flight"])[-1]
    engine.left.clear()
    sent = time.monotonic()
    ask("cancel", rollouts=[named])
    _wait_until(lambda: engine.left)
    figures["cancel_s"] = engine.left[0] - sent
    sent = time.monotonic()
    ask("drain")
    figures["drain_s"] = _last_start(engine, sent)
    return figures


def _last_start(engine: _Engine, sent: float) -> float:
    """Return how long after `sent` calls still started; 0 if none did."""
    time.sleep(_QUIET_S)
    return max((start - sent for start in engine.starts if start > sent), default=0.0)


def _first_start(engine: _Engine, sent: float) -> float:
    _wait_until(lambda: any(start > sent for start in engine.starts))
    return min(start for start in engine.starts if start > sent) - sent


def _wait_until(holds: Callable[[], object], within_s: float = 120.0) -> None:
    give_up_at = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > give_up_at:
            raise TimeoutError("the run did not come so far")
        time.sleep(0.001)


def _build_command(engine: _Engine, folder: Path, placement: str) -> list[str]:
    examples = REPOSITORY / f"resources_servers/{_ENVIRONMENT}/data/example.jsonl"
    (folder / "tasks.jsonl").write_text(examples.read_text().splitlines()[0] + "\n")
    configs = (
        f"resources_servers/{_ENVIRONMENT}/configs/{_ENVIRONMENT}.yaml",
        "responses_api_models/vllm_model/configs/vllm_model.yaml",
    )
    return [
        sys.executable,
        "-c",
        _E2E,
        f"+config_paths=[{','.join(configs)}]",
        f"+policy_base_url={engine.url}",
        "+policy_api_key=none",
        "+policy_model_name=mock",
        f"+placement={placement}",
        "++head_server.port=0",
        f"+agent_name={_ENVIRONMENT}_simple_agent",
        "+input_jsonl_fpath=tasks.jsonl",
        f"+num_repeats={_PLANNED}",
        f"+num_samples_in_parallel={_IN_FLIGHT}",
        "+output_jsonl_fpath=rollouts.jsonl",
    ]


# --- An engine that notes when calls start and when their clients leave ------------------------------------------


class _Engine(NotingEngine):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.starts: list[float] = []
        self.left: list[float] = []
        """The times at which clients left before the answer."""
        self.open: dict[int, None] = {}
        """The threads that answer a call."""


class _Handler(NotingHandler):
    server: _Engine
    text = "The answer is A."

    def note_call(self) -> bool:
        """Note the start of a call, and whether its client leaves before the answer."""
        self.server.starts.append(time.monotonic())
        self.server.open[threading.get_ident()] = None
        try:
            if select.select([self.connection], [], [], _STEP_S)[0]:  # its client has left
                self.server.left.append(time.monotonic())
                return False
        finally:
            self.server.open.pop(threading.get_ident(), None)
        return True
