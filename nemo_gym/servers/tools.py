"""The older import path of `nemo_gym.agents.tools`."""

from nemo_gym.agents.tools import (
    RESERVED_NAMES,
    ToolBelt,
    tool_error,
)

__all__ = [
    "RESERVED_NAMES",
    "ToolBelt",
    "tool_error",
]
