"""Names in files, headers and messages that several rooms use. Each is defined once.

This module imports nothing of the gym, so a client that only reads rows loads no server code.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

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
DIRECTORY_ROUTE: Final = "/_ng/directory"
"""The head server's route that answers the current value of that key."""
SCALE_ROUTE: Final = "/_ng/scale"
"""The head server's route that adds and removes replicas."""
DRAIN_TIMEOUT_S: Final = 1800.0
"""Seconds that replicas to be removed may take to finish their sessions, as long as a rollout may take by default."""
SESSIONS_ROUTE: Final = "/_ng/sessions"
"""The route of every server that answers the names of its sessions."""
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

HEALTH_ROUTES: Final = frozenset({"/health", "/healthz", "/livez", "/readyz"})
"""Routes by which load balancers and container platforms probe a server. They need no token and answer no data."""
METRICS_ROUTE: Final = "/metrics"
"""The route at which Prometheus reads a server's figures."""
MCP_METADATA_KEY: Final = "mcp"
"""In the answer of an agent's `/seed_session`: the MCP endpoint of the session."""
MCP_TOKEN_HEADER: Final = "X-NeMo-Gym-Session-Token"
"""The header that names the session of a request to an MCP endpoint."""

TOKEN_HEADER: Final = "x-ng-token"
"""The header with the run's token, which control routes require if the run has one."""

TASK_INDEX_KEY: Final = "_ng_task_index"
ROLLOUT_INDEX_KEY: Final = "_ng_rollout_index"
ATTEMPT_INDEX_KEY: Final = "_ng_attempt_index"
OUTCOME_KEY: Final = "_ng_outcome"
TIMING_KEY: Final = "_ng_timing"
"""In a row: seconds of the phases of the rollout, and their `total`."""
END_REASON_KEY: Final = "_ng_end_reason"
"""In a scored row: the reason why the attempt ended, such as `max_steps`."""
FAILURE_CLASS_KEY: Final = "_ng_failure_class"
"""In a failure row: the class of the failure."""
FAILED_AT_KEY: Final = "_ng_failed_at"
"""In a failure row: when the collector got the failure, in seconds since 1970."""
MASKED_KEY: Final = "_ng_masked"
"""In a scored row: trainers should skip it. `mask_sample` is the ecosystem's name for the same flag."""
TAMPERABLE_KEY: Final = "tamperable"
"""In a scored row: the answer ran beside its verifier and could have forged its reward."""
SCORED_BY_KEY: Final = "_ng_scored_by"
"""In a row of a run whose code has changed: the digest of the code that scored it. The manifest lists all of them."""
AGENT_REF_KEY: Final = "agent_ref"
SKILLS_REF_KEY: Final = "skills_ref"
TASK_SOURCE_KEY: Final = "task_source"
"""In a task row: the server that declares the row's dataset."""
ROLLOUT_ID_KEY: Final = "_ng_rollout_id"
"""In a task row: a name of the rollout that replaces the one made of its indices."""
PARAMS_KEY: Final = "responses_create_params"
REWARD_KEY: Final = "reward"
RESERVED_PREFIX: Final = "_ng_"
"""The prefix of row keys that the gym defines."""
END_KEY: Final = "_ng_end"
"""The key of the last line of a rollout stream, which reports how the stream ended."""
