from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.ecosystem.image_prompts import build_image_input
from nemo_gym.inputs.prompts import PromptConfig

PROMPT = PromptConfig(system="Answer in a word.", user="Question: {question}")


@pytest.mark.parametrize("image", ["aGk=", "data:image/png;base64,aGk="])
def test_the_image_is_a_part_of_the_users_message(image: str) -> None:
    system, user = build_image_input(PROMPT, "Which animal?", image)
    assert system == {"role": "system", "content": "Answer in a word."}
    assert user["content"] == [
        {"type": "input_text", "text": "Question: Which animal?"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "high"},
    ]


def test_a_question_without_an_image_is_text() -> None:
    messages: list[dict[str, Any]] = build_image_input(PROMPT, "Which animal?", "")
    assert messages[1]["content"] == "Question: Which animal?"
