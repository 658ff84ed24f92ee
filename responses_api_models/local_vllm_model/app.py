"""A model served by an engine on this machine, which the server starts, watches and ends."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fastapi import FastAPI
from pydantic import Field

from nemo_gym.engines.policy import reload_weights
from responses_api_models.local_vllm_model.engine_process import LocalEngine, flags_of
from responses_api_models.vllm_model.app import VLLMModel
from responses_api_models.vllm_model.config import VLLMModelConfig

_SERVE = "vllm serve {model} --host {host} --port {port} {flags}"


class LocalVLLMModelConfig(VLLMModelConfig):
    base_url: str | list[str] = "http://127.0.0.1/v1"
    """Replaced by the URL of the engine."""
    api_key: str = Field(default="none", repr=False)
    command: str = _SERVE
    """The command that starts the engine, with `{model}`, `{host}`, `{port}` and `{flags}`."""
    vllm_serve_kwargs: dict[str, Any] = Field(default_factory=dict)
    """The values of `{flags}`: `tensor_parallel_size: 8` is `--tensor-parallel-size 8`."""
    vllm_serve_env_vars: dict[str, str] = Field(default_factory=dict, repr=False)
    """Environment variables of the engine."""
    hf_home: str | None = None
    """The folder of Hugging Face's files (`HF_HOME`)."""
    max_restarts: int = Field(default=3, ge=0)
    show_vllm_engine_stats: bool = False
    """Let vLLM log its throughput."""
    debug: bool = False
    """Let vLLM log every detail."""

    def flags(self) -> str:
        """Return the value of `{flags}`."""
        quiet = {} if self.show_vllm_engine_stats else {"disable_log_stats": True}
        return shlex.join(flags_of({**quiet, **self.vllm_serve_kwargs}))

    def engine_variables(self) -> dict[str, str]:
        """Return the environment variables of the engine."""
        home = {"HF_HOME": self.hf_home} if self.hf_home is not None else {}
        level = {"VLLM_LOGGING_LEVEL": "DEBUG"} if self.debug else {}
        return {**home, **level, **self.vllm_serve_env_vars}


class LocalVLLMModel(VLLMModel):
    config: LocalVLLMModelConfig

    def new_locator(self) -> Callable[[], str | None]:
        config = self.config
        self._local = LocalEngine(
            config.command,
            {"model": shlex.quote(config.model), "flags": config.flags()},
            variables=config.engine_variables(),
            max_restarts=config.max_restarts,
        )
        return lambda: self._local.url

    async def on_start(self) -> None:
        await super().on_start()
        try:
            await self._local.start()
        except BaseException:
            await self._local.stop()
            raise

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/reload_weights")(self.reload_own_weights)
        return app

    async def reload_own_weights(self) -> dict[str, Any]:
        """Reload the weights in the engine of this process. Raises `EngineError`."""
        await self._local.ready()
        await reload_weights(self._engine)
        return {}

    async def load_weights(self, *, everywhere: bool) -> None:
        """Reload the weights in the engine of this process, or of all processes, of which each has its own."""
        if not everywhere or not self.server_client.has_replicas(self.config.name):
            await self.reload_own_weights()
            return
        for reply in await self.server_client.post_everywhere(self.config.name, "/reload_weights", json={}):
            reply.raise_for_status()

    async def prepare_to_join(self) -> None:
        # The engine may have read the folder of the weights before the others got their version.
        await self.reload_own_weights()

    def background_tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (*super().background_tasks(), self._local.keep_alive())

    async def on_stop(self) -> None:
        await super().on_stop()
        await self._local.stop()

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        respond = super().respond
        return await self._local.call(lambda: respond(params))

    async def complete(self, chat: dict[str, Any]) -> dict[str, Any]:
        complete = super().complete
        return await self._local.call(lambda: complete(chat))


if __name__ == "__main__":
    LocalVLLMModel.run_webserver()
