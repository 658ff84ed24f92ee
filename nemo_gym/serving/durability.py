"""The route by which a server is told of durable runs. Nothing that records is imported before the first of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import Request

from nemo_gym import RESULTS_DIR, WORKING_DIR
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.routes import request_object
from nemo_gym.transport.control import DURABLE_RUNS

if TYPE_CHECKING:
    from nemo_gym.serving.durable.runs import DurableRuns, RunLayer

CAPTURE_DIR_KEY = "model_call_capture_dir"
_DURABLE_RUNS = "durable_runs"


def capture_folder(configuration: Any) -> Path:
    """Return the folder of the captured calls and of the records of rollouts.

    Tests of authors pass a mock of the client, whose configuration is no mapping.
    """
    given = configuration if isinstance(configuration, Mapping) else {}
    return WORKING_DIR / (given.get(CAPTURE_DIR_KEY) or RESULTS_DIR / "model_calls")


def add_durable_runs(app: GymApp, folder: Path, build_layer: Callable[[], RunLayer]) -> None:
    """Add the route to an app, which gets the layer with the first run. The `folder` remembers the runs."""
    remembered = folder / _DURABLE_RUNS

    @cache
    def open_runs() -> DurableRuns:
        from nemo_gym.serving.durable.runs import DurableRuns

        return DurableRuns(app, remembered, build_layer())

    async def tell_durable_run(request: Request) -> dict[str, Any]:
        return open_runs().tell(await request_object(request))

    app.post(DURABLE_RUNS, include_in_schema=False)(tell_durable_run)
    if remembered.is_dir():
        open_runs()
