"""OpenEnv's own client at a server that runs, by an interpreter that has it.

python native_openenv_client.py URL '[{"reset": {"split": "example", "index": 0}, "actions": [{"message": "hi"}]}]'
"""

from __future__ import annotations

import asyncio
import json
import sys

from openenv.core import GenericEnvClient


def show(result):
    return [result.observation, result.reward, result.done, result.metadata]


async def play(client, game):
    shown = [show(await client.reset(**game["reset"]))]
    for action in game["actions"]:
        try:
            shown.append(show(await client.step(action)))
        except RuntimeError as error:
            shown.append(str(error))
    return {"moves": shown, "state": await client.state()}


async def play_all(url, games):
    found = []
    for game in games:
        async with GenericEnvClient(base_url=url) as client:
            found.append(await play(client, game))
    return found


if __name__ == "__main__":
    result = asyncio.run(play_all(sys.argv[1], json.loads(sys.argv[2])))
    sys.stdout.write(json.dumps(result))
