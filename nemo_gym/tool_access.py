"""The ecosystem's import path for the tools that an agent may use."""

from nemo_gym.protocol.tool_access import DirectHTTPToolAccess as DirectHTTPToolAccess
from nemo_gym.protocol.tool_access import MCPStreamableHTTPConnection as MCPStreamableHTTPConnection
from nemo_gym.protocol.tool_access import MCPToolAccess as MCPToolAccess
from nemo_gym.protocol.tool_access import ToolAccess as ToolAccess
