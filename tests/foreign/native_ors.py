"""A server of Open Reward Standard with its own client, run by an interpreter that has them.

python native_ors.py FOLDER serve                 prints the server's URL, and serves
python native_ors.py FOLDER play '[{"environment": "sums", "split": "test", "index": 0, "steps": [["add", {…}]]}]'
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import runpy
import socket
import sys
import threading
import time

import uvicorn
from openreward.api.environments.client import AsyncEnvironmentsAPI
from openreward.environments import Server


def serve(folder):
    sys.path.insert(0, folder)
    found = runpy.run_path(f"{folder}/server.py", run_name="server")
    listening = socket.create_server(("127.0.0.1", 0))
    app = Server([found["Sums"], found["Riddle"]]).app
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


def show_output(output):
    texts = "\n".join(block.text for block in output.blocks)
    return [texts, output.reward, bool(output.finished)]


async def take(session, step):
    try:
        if isinstance(step, str):
            return show_output(await session.call_terminal_tool(step))
        return show_output(await session.call_tool(step[0], step[1]))
    except Exception as error:
        return [type(error).__name__, getattr(error, "reason", None), str(getattr(error, "detail", error))]


async def play(environments, game):
    environment = environments.get(game["environment"], variant=game["environment"])
    task = await environment.get_task(game["split"], game["index"])
    async with environment.session(task) as session:
        messages = [
            [message.role, [getattr(block, "text", None) for block in message.blocks]]
            for message in await session.get_messages()
        ]
        tools = [[each.name, each.description, each.input_schema] for each in await session.list_tools()]
        steps = [await take(session, step) for step in game["steps"]]
    return {"messages": messages, "tools": tools, "steps": steps}


async def play_all(url, games):
    async with AsyncEnvironmentsAPI(base_url=url, api_key="") as environments:
        return [await play(environments, game) for game in games]


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        address = serve(sys.argv[1])
    if sys.argv[2] == "serve":
        print(address, flush=True)
        os.dup2(2, 1)  # the server logs to standard output, which has no reader
        sys.stdin.read()
    else:
        with contextlib.redirect_stdout(sys.stderr):
            result = asyncio.run(play_all(address, json.loads(sys.argv[3])))
        print(json.dumps(result), flush=True)
