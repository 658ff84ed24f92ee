"""One attempt of a harness in a process of its own: `python -m tests.harnesses.attempt HARNESS MODEL_PORT`.

It prints the scored row. The model server is another process, at the given port.
"""

from __future__ import annotations

import asyncio
import sys

import orjson

from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.server_client import ServerClient
from tests.engines.gateway.rollouts import TOKEN
from tests.harnesses.repairs import ROW, add_player


class RunGym(InProcessGym):
    """A gym that calls the servers of a run with the run's token."""

    def client(self) -> ServerClient:
        return ServerClient.connect(self.config, transport=self._over, token=TOKEN)


async def attempt(harness: str, model_port: int) -> bytes:
    gym = RunGym()
    block = {"entrypoint": "app.py", "host": "127.0.0.1", "port": model_port}
    gym.config["policy_model"] = {"responses_api_models": {"vllm_model": block}}
    add_player(gym, harness)
    async with gym.running(over_http=True):
        return orjson.dumps(await gym.run(harness, dict(ROW)))


if __name__ == "__main__":
    sys.stdout.buffer.write(asyncio.run(attempt(sys.argv[1], int(sys.argv[2]))))
