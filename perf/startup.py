"""Seconds until the servers of `ng_run` answer, their memory, and the cost of `import nemo_gym`.

The four servers are an agent, a model server and two resources servers. The head server and the launcher are measured
too. Inline, the figures are the time from the command to its first request to the model, and to its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from perf.episodes import EPISODES
from perf.measure import REPOSITORY, Figures, median_of, memory_mb
from perf.noting_engine import NotingEngine, NotingHandler, serve
from perf.running_gym import running_gym

OVERRIDES = (
    "+config_paths=[resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml,"
    "responses_api_models/scripted_model/configs/scripted_model.yaml]",
    "++second.resources_servers.example_single_tool_call.entrypoint=app.py",
)
HEAVY_MODULES = ("torch", "ray", "transformers", "pandas", "openai", "fastapi", "aiohttp")
_E2E = "from nemo_gym.cli.e2e_collect_rollouts import main; main()"


def run(runs: int) -> Figures:
    """Return the medians of `runs` starts."""
    return {
        "ng_run": median_of(runs, _start_once),
        "inline": median_of(runs, _collect_inline_once),
        "import_nemo_gym_s": median_of(runs, _import_once)["seconds"],
        "heavy_modules_imported": _heavy_modules(),
    }


def _start_once() -> Figures:
    started = time.monotonic()
    with running_gym(OVERRIDES) as gym:
        ready_s = time.monotonic() - started
        processes = gym.processes()
        figures = {
            "ready_s": ready_s,
            "memory_mb": memory_mb(processes),
            "processes": len(processes),
            "servers": len(gym.urls) + 1,
        }
        stopping = time.monotonic()
    return {**figures, "stop_s": time.monotonic() - stopping}


def _collect_inline_once() -> Figures:
    with serve(_Engine, _Handler) as engine, tempfile.TemporaryDirectory() as folder:
        policy = [f"+policy_base_url={engine.url}", "+policy_api_key=none", "+policy_model_name=mock"]
        output = f"+output_jsonl_fpath={folder}/rollouts.jsonl"
        configs = EPISODES["tool-calling"].configs
        command = [sys.executable, "-c", _E2E, configs, *policy, "+placement=inline", output, "+limit=1"]
        started = time.monotonic()
        subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return {"first_model_request_s": engine.first_asked - started, "seconds": time.monotonic() - started}


def _import_once() -> Figures:
    code = "import time; t = time.perf_counter(); import nemo_gym; print(time.perf_counter() - t)"
    return {"seconds": float(subprocess.check_output([sys.executable, "-c", code], env=_environment()))}


def _heavy_modules() -> list[str]:
    """Return the heavy modules that `import nemo_gym` loads. There should be none."""
    code = f"import nemo_gym, sys; print(' '.join(m for m in {HEAVY_MODULES!r} if m in sys.modules))"
    return subprocess.check_output([sys.executable, "-c", code], text=True, env=_environment()).split()


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": str(REPOSITORY), **os.environ}


# --- An engine that records its first request -------------------------------------------------------------------


class _Engine(NotingEngine):
    first_asked = 0.0


class _Handler(NotingHandler):
    server: _Engine
    text = "It is warm."

    def note_call(self) -> bool:
        self.server.first_asked = self.server.first_asked or time.monotonic()
        return True
