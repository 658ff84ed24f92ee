"""Names in files, headers and messages that several rooms use. Each is defined once.

This module imports nothing of the gym, so a client that only reads rows loads no server code.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, get_args

__all__ = [
    "CALL_ROUTES",
    "MCP_METADATA_KEY",
    "MCP_TOKEN_HEADER",
    "MODEL_ROUTES",
    "PLACE_HEADER",
    "STEP_REQUEST_KEY",
]

ServerKind: TypeAlias = Literal[
    "resources_servers", "responses_api_models", "responses_api_agents", "environment_servers"
]

SERVER_KINDS: tuple[ServerKind, ...] = get_args(ServerKind)
AGENT_ALIAS: Final = "legacy_agent"
"""The environment server that only forwards to its agent. It is a second name of the agent, without a process."""

HEAD_SERVER: Final = "head_server"
"""The name of the head server, and its key in the configuration."""
DEFAULT_HEAD_SERVER_PORT: Final = 11000
REPLICA_PORTS_KEY: Final = "_ng_replica_ports"
"""In a server's block of a running gym's configuration: the ports of all its processes."""
LOCAL_SOCKETS_KEY: Final = "_ng_local_sockets"
"""In the configuration of a running gym: the name of the sockets for calls within the machine."""
DIRECTORY_KEY: Final = "_ng_directory"
"""In the configuration of a running gym on several machines: the addresses of all replicas, which can move."""
CODE_KEY: Final = "_ng_code"
"""In the configuration of a running gym: the files of its servers' code, and the commit of the user's repository."""
NODES_FILE: Final = "nodes.json"
"""In the log folder of a gym on several machines: its machines and what has happened to them."""
ROLLOUT_PATH_PREFIX: Final = "ng-rollout"
"""Begins the paths of calls that belong to a rollout by their URL: `/ng-rollout/<id>/v1/responses`."""
DIRECTORY_ROUTE: Final = "/_ng/directory"
"""The head server's route that answers the current value of that key."""
SCALE_ROUTE: Final = "/_ng/scale"
"""The head server's route that adds and removes replicas."""
CLOCK_ROUTE: Final = "/_ng/clock"
ATTEMPTS_ROUTE: Final = "/_ng/attempts"
"""The route of every server that holds the clock of its rollouts while a run is paused."""
RUNS_ROUTE: Final = "/_ng/runs"
"""The route of runs that can be controlled (`nemo_gym.rollouts.control`)."""
ROLLOUT_SESSIONS_ROUTE: Final = "/rollout-sessions"
"""The head server's route of open rollout sessions."""
ALIVE_KEY: Final = "_ng_alive"
"""The key of a line of a session's stream that says what the session waits for."""
DRAIN_TIMEOUT_S: Final = 1800.0
"""Seconds that replicas to be removed may take to finish their sessions, as long as a rollout may take by default."""
SESSIONS_ROUTE: Final = "/_ng/sessions"
"""The route of every server that answers the names of its sessions."""
TASKS_ROUTE: Final = "/_ng/tasks"
"""The route of a resources server that checks task rows by its own models."""
POSTED_ROUTE: Final = "/_ng/posted"
"""The route of a resources server that answers the paths of its `POST` routes, tools included."""

ALLOW_UNSANDBOXED: Final = "allow_unsandboxed"
"""The global key that lets code of models run without isolation."""
ALLOWED_HOSTS: Final = "allowed_hosts"
"""The global key with names under which servers are called, beside localhost, IP addresses and bound hosts."""
OPEN_NETWORK: Final = "open_network"
"""The global key that lets other machines call servers without the token, except for control routes."""
TLS_KEY: Final = "tls"
"""The global key with the files of TLS between the processes of a gym."""
MAX_BODY_MIB: Final = "max_body_mib"
"""The global key with the largest body, in MiB, of a request without the run's token."""
DEFAULT_MAX_BODY_MIB: Final = 64.0
RUN_TOKEN: Final = "run_token"
"""The global key with the run's token, which control routes and routes that other machines can reach require."""

CALL_ROUTES: Final = frozenset(
    {"/v1/responses", "/v1/responses/compact", "/v1/chat/completions", "/v1/messages"}
)
"""The routes of a model server at which the model samples."""
MODEL_ROUTES: Final = CALL_ROUTES | {
    "/v1/models",
    "/v1/messages/count_tokens",
    "/v1/responses/input_tokens",
}
"""The routes of a model server that agents call, beside those of single models."""

CANNOT_START: Final = 2
"""The exit code of a server whose code or configuration has to be corrected before it can start."""

HEALTH_ROUTES: Final = frozenset({"/health", "/healthz", "/livez", "/readyz"})
"""Routes by which load balancers and container platforms probe a server. They need no token and answer no data."""
METRICS_ROUTE: Final = "/metrics"
"""The route at which Prometheus reads a server's figures."""
MCP_METADATA_KEY: Final = "mcp"
"""In the answer of an agent's `/seed_session`: the MCP endpoint of the session."""
MCP_TOKEN_HEADER: Final = "X-NeMo-Gym-Session-Token"
"""The header that names the session of a request to an MCP endpoint."""

MCP_TOOL_PREFIX: Final = re.compile(r"mcp__.+?__")
"""The prefix `mcp__<server>__` that MCP clients put before the name of a tool."""
PLACE_HEADER: Final = "x-ng-place"
"""The header of an author's own error answer with the `file:line` that raised it."""

TOKEN_HEADER: Final = "x-ng-token"
"""The header with the run's token, which control routes require if the run has one."""

RESERVED_PREFIX: Final = "_ng_"
"""The prefix of the keys of rows and of output items that the gym defines."""
TOKEN_RECORD_KEY: Final = "_ng_tokens"
"""In an output item: the token record of the model call that ends with it."""
OBSERVATIONS_KEY: Final = "ng_agent_observations"
"""The field of a row with what its agent tells of its session."""
OUTPUT_ERROR_KEY: Final = "_ng_tool_error"
"""In an output item: the cause for which the call failed whose output it is."""
STOP_SEQUENCE_KEY: Final = "_ng_stop_sequence"
"""In a response: the stop string that ended it, which the Responses API cannot express."""
STEP_REQUEST_KEY: Final = "_ng_step_request_id"
"""In the body of `/step`: an id by which a repeated request is recognized."""
END_KEY: Final = "_ng_end"
"""The key of the last line of a rollout stream, which reports how the stream ended."""

AGENT_TIMEOUT_KEY: Final = "agent_timeout_s"
"""In a task row: the seconds of the agent, in each of its turns."""
TASK_FOLDER_KEY: Final = "task_folder"
"""In a row of a task folder: its dataset, source, licence, split and version, and fields not honoured as they are."""
FOLDER_DIGEST_KEY: Final = "folder_digest"
"""In a row of a task folder: the SHA-256 of its files."""
FOREIGN_SOURCE_KEY: Final = "foreign"
"""In a row of a foreign environment: its kind, name, version, digest, source, licence and split, and the task."""
NEXT_TURN_KEY: Final = "_ng_next_turn"
"""In the answer of `/verify` if the episode goes on: the fields of the task row that change, and the new `input`."""
TURN_KEY: Final = "_ng_turn"
"""The number of the turn that `/verify` scores, from 0; absent in the first."""
