"""OpenEnv's own server and client, run by an interpreter that has them.

python native_openenv.py FOLDER '[{"seed": 1, "actions": [{"number": 3}]}]'
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import socket
import sys
import threading
import time

import uvicorn
from openenv.core import GenericEnvClient


def serve(folder):
    sys.path.insert(0, folder)
    app = importlib.import_module("server.app").app
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


async def play(url, game):
    shown = []
    async with GenericEnvClient(base_url=url) as client:
        first = await client.reset(seed=game["seed"])
        for action in game["actions"]:
            try:
                moved = await client.step(action)
            except RuntimeError as error:
                shown.append({"error": str(error)})
                continue
            shown.append({"observation": moved.observation, "reward": moved.reward, "done": moved.done})
            if moved.done:
                break
    return {"first": first.observation, "steps": shown}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        address = serve(sys.argv[1])
        result = [asyncio.run(play(address, game)) for game in json.loads(sys.argv[2])]
    print(json.dumps(result), flush=True)
