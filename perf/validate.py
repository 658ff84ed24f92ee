"""The CPU of `ng_validate`, and the CPU and memory of `import nemo_gym.base_resources_server`.

`ng_validate` imports the implementations in forks of a fork server. Its own process does everything else: it starts,
reads the configuration and checks it.
"""

from __future__ import annotations

import os
import subprocess
import sys

from perf.measure import REPOSITORY, Figures, median_of

IMPORTED = "nemo_gym.base_resources_server"
OVERRIDES = (
    "+config_paths=[resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml,"
    "responses_api_models/scripted_model/configs/scripted_model.yaml]",
    "++head_server.port=0",
)
_CPU = "lambda who: sum(resource.getrusage(who)[:2])"
_VALIDATE = f"""
import resource, sys
from nemo_gym.cli.validate import main
try:
    main()
finally:
    cpu = {_CPU}
    print(cpu(resource.RUSAGE_SELF), cpu(resource.RUSAGE_CHILDREN), file=sys.stderr)
"""
_IMPORT = f"""
import resource, sys
import {IMPORTED}
cpu = {_CPU}
print(cpu(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def run(runs: int) -> Figures:
    """Return the medians of `runs` processes each. Their modules are compiled before."""
    _validate_once()
    return {
        "ng_validate": median_of(runs, _validate_once),
        f"import {IMPORTED}": median_of(runs, _import_once),
    }


def _validate_once() -> Figures:
    own, forks = _figures_of(_VALIDATE, *OVERRIDES)
    return {"cpu_s": own, "forks_cpu_s": forks}


def _import_once() -> Figures:
    cpu, kibibytes = _figures_of(_IMPORT)
    return {"cpu_s": cpu, "memory_mb": kibibytes * 1024 / 1e6}


def _figures_of(program: str, *arguments: str) -> tuple[float, float]:
    """Return the two numbers that a process prints last to stderr."""
    environment = {"PYTHONPATH": str(REPOSITORY), **os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have compiled modules
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    first, second = done.stderr.split()[-2:]
    return float(first), float(second)
