"""Serves an environment's own application within the host, on a loopback port that nothing else can reach."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

from .faults import HostError

_START_S = 60.0


def start_server(app: Any) -> str:
    """Serve an ASGI application on a free port, in a thread, and return its URL. Needs uvicorn in the packages."""
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))

    def serve() -> None:
        with contextlib.suppress(SystemExit):  # the application did not start
            server.run([listening])

    thread = threading.Thread(target=serve, daemon=True, name="environment")
    thread.start()
    until = time.monotonic() + _START_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > until:
            listening.close()
            raise HostError("environment_error", "the environment's server did not start")
        time.sleep(0.05)
    return f"http://127.0.0.1:{listening.getsockname()[1]}"
