"""The older import path of `nemo_gym.agents.tools`."""

from nemo_gym.agents.tools import RESERVED_NAMES as RESERVED_NAMES
from nemo_gym.agents.tools import ToolClient as ToolClient
from nemo_gym.agents.tools import tool_error as tool_error

ToolBelt = ToolClient
