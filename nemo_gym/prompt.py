"""The ecosystem's import path for prompt templates."""

from nemo_gym.config.prompts import (
    PromptConfig,
    apply_prompt_to_row,
    fill_prompt,
    load_prompt_config,
    validate_prompt_compatibility,
)

__all__ = [
    "PromptConfig",
    "apply_prompt_to_row",
    "fill_prompt",
    "load_prompt_config",
    "validate_prompt_compatibility",
]
