"""A model at a hosted inference provider with an OpenAI-compatible `/chat/completions`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field, model_validator

from nemo_gym.responses import Dialect
from responses_api_models.inference_provider.providers import PROVIDERS
from responses_api_models.vllm_model.app import VLLMModel
from responses_api_models.vllm_model.config import VLLMModelConfig


class InferenceProviderConfig(VLLMModelConfig):
    provider: str | None = None
    """A name of `PROVIDERS`, which has the default of `base_url` and the environment variable for `api_key`."""
    num_concurrent_requests: int = Field(default=1000, ge=1)
    """Requests to the provider at a time; further ones wait."""
    uses_reasoning_parser: bool = False
    uses_interleaved_reasoning: bool = False
    """Providers differ in the field for earlier reasoning, and some refuse a request with any."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_provider(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        keys = dict(given)
        keys.setdefault("max_concurrent_requests", keys.get("num_concurrent_requests", 1000))
        name = keys.get("provider")
        if name is None:
            return keys
        provider = PROVIDERS.get(name)
        if provider is None:
            raise ValueError(f"there is no provider {name!r}; there are {', '.join(PROVIDERS)}")
        keys.setdefault("base_url", provider.base_url)
        if not keys.get("api_key"):
            keys["api_key"] = os.environ.get(provider.key_variable)
        if not keys["api_key"]:
            raise ValueError(f"{name} needs `api_key`, or the environment variable {provider.key_variable}")
        return keys


class InferenceProvider(VLLMModel):
    config: InferenceProviderConfig

    def new_dialect(self) -> Dialect:
        return replace(super().new_dialect(), max_tokens_field="max_tokens")

    async def prepare_chat(self, chat: dict[str, Any]) -> dict[str, Any]:
        """Leave out the metadata, which is the gym's and which providers refuse."""
        body = await super().prepare_chat(chat)
        return {name: value for name, value in body.items() if name != "metadata"}


if __name__ == "__main__":
    InferenceProvider.run_webserver()
