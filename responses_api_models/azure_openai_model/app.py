"""A model at Azure OpenAI: OpenAI's API with a key in another header and a version in the query."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from responses_api_models.openai_model.app import OpenAIModel, OpenAIModelConfig


class AzureOpenAIModelConfig(OpenAIModelConfig):
    default_query: dict[str, str] = Field(default_factory=dict)
    """Query parameters of every request, such as `api-version`."""


class AzureOpenAIModel(OpenAIModel):
    config: AzureOpenAIModelConfig

    def credentials(self) -> dict[str, str]:
        return {"api-key": self.config.openai_api_key}

    def query(self) -> dict[str, str]:
        return self.config.default_query

    async def preflight(self) -> dict[str, Any]:
        # Azure lists models, but requests name deployments: only URL and key can be checked.
        await self._engine.preflight(None)
        return {"ok": True}


if __name__ == "__main__":
    AzureOpenAIModel.run_webserver()
