"""Hosted inference providers: their base URLs, and the environment variables that usually hold their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Provider(NamedTuple):
    """A provider with an OpenAI-compatible `/chat/completions`."""

    base_url: str
    key_variable: str


PROVIDERS: Mapping[str, Provider] = {
    "baseten": Provider("https://inference.baseten.co/v1", "BASETEN_API_KEY"),
    "deepinfra": Provider("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "fireworks": Provider("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "friendli": Provider("https://api.friendli.ai/serverless/v1", "FRIENDLI_TOKEN"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "hf_inference": Provider("https://router.huggingface.co/v1", "HF_TOKEN"),
    "nebius": Provider("https://api.tokenfactory.nebius.com/v1", "NEBIUS_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
}
