"""The environment of the `replicas` benchmark: state in memory, and a tool that computes on the event loop."""

from __future__ import annotations

import time

from fastapi import Request

from resources_servers.example_session_state_mgmt.app import (
    ExampleSessionStateMgmtResourcesServer,
    IncrementCounterRequest,
    IncrementCounterResponse,
)

COMPUTES_S = 0.002
"""CPU seconds per call."""


class BusyCounterResourcesServer(ExampleSessionStateMgmtResourcesServer):
    async def increment_counter(
        self, request: Request, body: IncrementCounterRequest
    ) -> IncrementCounterResponse:
        until = time.thread_time() + COMPUTES_S
        while time.thread_time() < until:
            pass
        return await super().increment_counter(request, body)


if __name__ == "__main__":
    BusyCounterResourcesServer.run_webserver()
