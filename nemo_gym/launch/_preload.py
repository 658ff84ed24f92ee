"""Imports the modules that every server needs, and builds and discards one server.

FastAPI and uvicorn import many of their modules when the first app is built. A fork server imports this module before
it forks, so that its children skip all of this.
"""

from __future__ import annotations

import importlib

import uvicorn
import uvicorn.lifespan.on
import uvicorn.protocols.http.httptools_impl
import uvloop

import nemo_gym.engines.engine_model
from nemo_gym.head.server import HeadServer

for path in ("base_resources_server", "base_responses_api_agent", "base_responses_api_model"):
    importlib.import_module(f"nemo_gym.{path}")  # the paths that implementations import; no room imports them

__all__ = ["nemo_gym", "uvicorn", "uvloop"]

uvicorn.Config(
    HeadServer.standalone().setup_webserver(), loop="none", http="httptools", log_config=None
).load()
