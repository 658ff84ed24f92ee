"""Names that travel between processes or stand in files, and that several rooms read: one definition of each.

This module imports nothing of the gym, so that a client that only reads rows loads no server.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

ServerKind: TypeAlias = Literal["resources_servers", "responses_api_models", "responses_api_agents"]

SERVER_KINDS: tuple[ServerKind, ...] = ("resources_servers", "responses_api_models", "responses_api_agents")

HEAD_SERVER: Final = "head_server"
"""The head server's name, and its key in a configuration."""
DEFAULT_HEAD_SERVER_PORT: Final = 11000
REPLICA_PORTS_KEY: Final = "_ng_replica_ports"
"""The ports of all processes of a server, in its block of a running gym's configuration."""

TOKEN_HEADER: Final = "x-ng-token"
"""The run's token; control routes need it when the run has one."""

TASK_INDEX_KEY: Final = "_ng_task_index"
ROLLOUT_INDEX_KEY: Final = "_ng_rollout_index"
ATTEMPT_INDEX_KEY: Final = "_ng_attempt_index"
OUTCOME_KEY: Final = "_ng_outcome"
FAILURE_CLASS_KEY: Final = "_ng_failure_class"
MASKED_KEY: Final = "_ng_masked"
"""In a scored row: trainers should leave it out. `mask_sample` says the same in the ecosystem's words."""
AGENT_REF_KEY: Final = "agent_ref"
PARAMS_KEY: Final = "responses_create_params"
REWARD_KEY: Final = "reward"
RESERVED_PREFIX: Final = "_ng_"
"""Keys of a row that begin like this belong to the gym."""
END_KEY: Final = "_ng_end"
"""The key of the last line of a rollout stream, which says how the stream ended."""
