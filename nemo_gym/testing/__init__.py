"""Test harness for environment authors.

    from nemo_gym.testing import call, run_environment

    def test_the_note_is_found() -> None:
        (row,) = run_environment(Drawers, [TASK], turns=[call("open_drawer", drawer="left"), "It says tea."])
        assert row["reward"] == 1.0

Names are imported on first use. The room builds on `mock_engine`, `serving`, `agents` and `resources`. Public modules:

- `environment`: one scored attempt per task with a scripted policy
- `in_process`: a gym in one event loop; `serving`: apps on loopback ports
- `faulty_server`: a resources server with a fault plan
- `session_conformance`: a check of the sessions that environment servers open
- `sandbox_conformance`: a check of a sandbox provider
- `transformers_engine`, `tiny_model`: a real policy model in this process; they need torch and transformers
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_gym.testing.environment import Turn, Turns, call, read_rows, run_environment
    from nemo_gym.testing.in_process import InProcessGym

__all__ = ["InProcessGym", "Turn", "Turns", "call", "read_rows", "run_environment"]

_MODULE_OF = dict.fromkeys(__all__, "environment") | {"InProcessGym": "in_process"}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
