"""Notes to write and read: an environment of OpenEnv whose actions are MCP tools."""

from __future__ import annotations

from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Observation, State


class NotesEnvironment(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        notes = FastMCP("notes_env")
        self._notes = {}

        @notes.tool
        def write(name: str, text: str) -> str:
            """Write a note."""
            self._notes[name] = text
            return f"{len(self._notes)} notes"

        @notes.tool
        def read(name: str) -> str:
            """Read a note."""
            return self._notes.get(name, "nothing")

        super().__init__(notes)
        self._state = State(episode_id="none", step_count=0)

    def reset(self, seed=None, episode_id=None, **arguments):
        self._notes.clear()
        self._state = State(episode_id="none", step_count=0)
        return Observation(done=False, reward=0.0, metadata={})

    def _step_impl(self, action, timeout_s=None, **arguments):
        return Observation(done=False, reward=0.0, metadata={"error": "only tools"})

    @property
    def state(self):
        return self._state


app = create_app(NotesEnvironment, CallToolAction, CallToolObservation, env_name="notes_env")
