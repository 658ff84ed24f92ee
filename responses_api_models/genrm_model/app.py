"""A generative reward model that compares two responses, served by vLLM on this machine.

Its chat template has three roles of its own. A request names their texts in its metadata, so that the request itself
stays an ordinary conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from responses_api_models.local_vllm_model.app import LocalVLLMModel, LocalVLLMModelConfig


class GenRMModelConfig(LocalVLLMModelConfig):
    supports_principle_role: bool = True
    """The chat template has the role `principle`; otherwise a principle is left out."""


class GenRMModel(LocalVLLMModel):
    config: GenRMModelConfig

    async def prepare_chat(self, chat: dict[str, Any]) -> dict[str, Any]:
        """Move `principle`, `response_1` and `response_2` of the metadata to messages of these roles."""
        given = chat.get("metadata")
        metadata: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        principle = (
            ("principle",) if self.config.supports_principle_role and metadata.get("principle") else ()
        )
        compared = [
            {"role": role, "content": metadata[role]}
            for role in (*principle, "response_1", "response_2")
            if metadata.get(role) is not None
        ]
        plain = {name: value for name, value in chat.items() if name != "metadata"}
        return await super().prepare_chat({**plain, "messages": [*chat["messages"], *compared]})


if __name__ == "__main__":
    GenRMModel.run_webserver()
