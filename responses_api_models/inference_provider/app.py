"""A model at a hosted inference provider with an OpenAI-compatible `/chat/completions`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Self

from pydantic import Field, model_validator

from nemo_gym.responses import Dialect
from responses_api_models.inference_provider.providers import PROVIDERS
from responses_api_models.vllm_model.app import VLLMModel
from responses_api_models.vllm_model.config import VLLMModelConfig


class InferenceProviderConfig(VLLMModelConfig):
    provider: str | None = None
    """A name of `PROVIDERS`, which has the default of `base_url` and the environment variable for `api_key`."""
    base_url: str | list[str] = ""
    api_key: str = Field(default="", repr=False)
    num_concurrent_requests: int = Field(default=1000, ge=1)
    """Requests to the provider at a time; further ones wait."""
    uses_reasoning_parser: bool = False
    uses_interleaved_reasoning: bool = False
    """Providers differ in the field for earlier reasoning, and some refuse a request with any."""

    @model_validator(mode="after")
    def _fill_in_provider(self) -> Self:
        self.max_concurrent_requests = self.num_concurrent_requests
        name = self.provider
        if name is not None:
            provider = PROVIDERS.get(name)
            if provider is None:
                raise ValueError(f"there is no provider {name!r}; there are {', '.join(PROVIDERS)}")
            self.base_url = self.base_url or provider.base_url
            self.api_key = self.api_key or os.environ.get(provider.key_variable, "")
            if not self.api_key:
                raise ValueError(
                    f"{name} needs `api_key`, or the environment variable {provider.key_variable}"
                )
        if not (self.base_url and self.api_key):
            raise ValueError("`base_url` and `api_key`, or `provider`, must be given")
        return self


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
