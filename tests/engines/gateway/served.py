"""A model server of a run as a process of its own: `python -m tests.engines.gateway.served FOLDER ENGINE [PORT]`."""

from __future__ import annotations

import asyncio
import socket
import sys

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.serving.listening import Listener
from responses_api_models.vllm_model.app import VLLMModel
from tests.engines.gateway.rollouts import TOKEN


async def serve(folder: str, engine_url: str, port: str = "0") -> None:
    bootstrap.set_current(Bootstrap("policy_model", {}, TOKEN, "cookie key", []))
    server = VLLMModel.standalone(
        name="policy_model",
        base_url=engine_url,
        api_key="key",
        model="mock",
        return_token_id_information=True,
    )
    server.server_client.global_config_dict = {"model_call_capture_dir": folder}
    listening = socket.create_server(("127.0.0.1", int(port)))
    async with server.alive():
        await Listener(server.finish_app()).start(listening)
        sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
