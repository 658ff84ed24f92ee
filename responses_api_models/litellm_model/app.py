"""A model behind a LiteLLM proxy.

A proxy answers Responses requests in several forms, depending on its version and the model's provider: a Responses
object, the same labelled as a chat completion, or a chat completion. All become a Responses object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.engines.engine_model import new_id, now
from nemo_gym.failures import EngineError
from nemo_gym.responses import convert_chat_to_response
from responses_api_models.openai_model.app import OpenAIModel, OpenAIModelConfig

COMPROMISED = frozenset({"1.82.7", "1.82.8"})
"""Releases with code that steals credentials: https://docs.litellm.ai/blog/security-update-march-2026."""


class LiteLLMModelConfig(OpenAIModelConfig):
    """The keys of `openai_model`."""


class LiteLLMModel(OpenAIModel):
    config: LiteLLMModelConfig

    def read_native_answer(self, answer: dict[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
        if "output" not in answer and isinstance(answer.get("choices"), list):
            return convert_chat_to_response(
                answer, params, ids=new_id, now=now(), dialect=self._dialect
            ).response
        answer = {**answer, "object": "response"}
        answer.setdefault("created_at", answer.pop("created", None) or now())
        reasoning = answer.get("reasoning")
        if isinstance(reasoning, Mapping) and reasoning.get("effort") == "none":
            answer["reasoning"] = {**reasoning, "effort": None}
        return answer

    async def preflight(self) -> dict[str, Any]:
        """Check what `openai_model` checks, and the version of the proxy if it names it."""
        found = await super().preflight()
        details = await self._engine.call("GET", "/health/readiness", at_root=True)
        version = details.reply.json().get("litellm_version") if details.reply.ok else None
        if version in COMPROMISED:
            raise EngineError(
                f"{details.url} is LiteLLM {version}, a release with code that steals credentials",
                code="compromised_proxy",
                peer=details.url,
                remedy="Upgrade the proxy to 1.83.0 or later, and replace its keys.",
            )
        return {**found, "litellm_version": version}


if __name__ == "__main__":
    LiteLLMModel.run_webserver()
