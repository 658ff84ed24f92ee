"""The input of a row whose question has an image."""

from __future__ import annotations

from typing import Any

from nemo_gym.inputs.prompts import PromptConfig, fill_prompt


def build_image_input(prompt_config: PromptConfig, question: str, image: str) -> list[dict[str, Any]]:
    """Return the filled prompt, with the image as a part of the user's message.

    `image` is a data URI or the base64 text of a PNG. The input is the prompt alone if it is empty.
    """
    messages: list[dict[str, Any]] = [*fill_prompt(prompt_config, {"question": question})]
    if not image:
        return messages
    url = image if image.startswith("data:") else f"data:image/png;base64,{image}"
    for message in messages:
        if message["role"] == "user":
            message["content"] = [
                {"type": "input_text", "text": message["content"]},
                {"type": "input_image", "image_url": url, "detail": "high"},
            ]
    return messages
