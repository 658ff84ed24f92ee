"""An MCP server of tests: notes in a file of its working folder. `python mcp_notes.py [PORT]`: over stdio, or HTTP."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")


@server.tool(structured_output=False)
def add(text: str) -> str:
    """Add a note."""
    with Path("notes.txt").open("a", encoding="utf-8") as file:
        file.write(text + "\n")
    return Path("notes.txt").read_text(encoding="utf-8")


@server.tool(structured_output=False)
def process() -> str:
    return f"{os.getpid()} {Path.cwd()}"


@server.tool(structured_output=False)
def fail() -> str:
    raise ValueError("the note is empty")


@server.tool(structured_output=False)
def wait() -> str:
    time.sleep(60)
    return ""


@server.tool(structured_output=False)
def end() -> str:
    sys.stderr.write("disk is full\n")
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
