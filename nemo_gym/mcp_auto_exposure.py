"""The ecosystem's import path for tools over MCP."""

from nemo_gym import names
from nemo_gym.resources.mcp import maybe_auto_expose as maybe_auto_expose
from nemo_gym.resources.mcp_tools import MCPTool as MCPTool

NEMO_GYM_MCP_SESSION_TOKEN_HEADER = names.MCP_TOKEN_HEADER
TOKEN_HEADER = names.MCP_TOKEN_HEADER
