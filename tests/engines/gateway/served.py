"""A model server of a run as a process of its own: `python -m tests.engines.gateway.served FOLDER ENGINE_URL`."""

from __future__ import annotations

import asyncio
import sys

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.testing.serving import serving
from responses_api_models.vllm_model.app import VLLMModel
from tests.engines.gateway.rollouts import TOKEN


async def serve(folder: str, engine_url: str) -> None:
    bootstrap.set_current(Bootstrap("policy_model", {}, TOKEN, "cookie key", []))
    server = VLLMModel.standalone(
        name="policy_model",
        base_url=engine_url,
        api_key="key",
        model="mock",
        return_token_id_information=True,
    )
    server.server_client.global_config_dict = {"model_call_capture_dir": folder}
    async with serving(server) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
