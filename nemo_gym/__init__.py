"""A gym of HTTP microservices for training and evaluating language-model agents.

Importing this module loads no server, client or trainer.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.2.0"

PARENT_DIR: Path = Path(__file__).resolve().parent.parent
"""The folder that holds `nemo_gym/`, `resources_servers/`, `responses_api_agents/` and `responses_api_models/`."""

WORKING_DIR: Path = Path(os.environ.get("NEMO_GYM_WORKING_DIR") or Path.cwd())
"""The folder in which the command was started; relative paths in configurations are resolved here first. A server
process runs in its implementation's folder and gets this one from the environment variable."""

RESULTS_DIR = WORKING_DIR / "results"
CACHE_DIR = WORKING_DIR / ".nemo_gym" / "cache"

_ON_FIRST_USE = {
    "evaluate": "nemo_gym.evaluation.evaluation",
    "evaluate_async": "nemo_gym.evaluation.evaluation",
    "view": "nemo_gym.viewer.notebook",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_FIRST_USE[name]), name)


__all__ = [
    "CACHE_DIR",
    "PARENT_DIR",
    "RESULTS_DIR",
    "WORKING_DIR",
    "__version__",
    "evaluate",
    "evaluate_async",
    "view",
]

# The ecosystem's name. It is imported last, because `paths` needs the folders above.
from nemo_gym.paths import resolve_for_reading as _resolve_under_cwd_or_install  # noqa: E402, F401
