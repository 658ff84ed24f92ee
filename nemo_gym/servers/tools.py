"""The older import path of `nemo_gym.agents.tools`."""

from nemo_gym.agents.tools import (
    RESERVED_NAMES,
    ToolClient,
    tool_error,
)

ToolBelt = ToolClient

__all__ = [
    "RESERVED_NAMES",
    "ToolBelt",
    "ToolClient",
    "tool_error",
]
