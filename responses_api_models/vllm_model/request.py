"""Changes of a chat request, and of its answer, that keys of the configuration ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nemo_gym.responses.dialects import REASONING_FIELDS
from responses_api_models.vllm_model.audio import with_audio
from responses_api_models.vllm_model.config import VLLMModelConfig


async def prepared(chat: dict[str, Any], config: VLLMModelConfig, session: str | None) -> dict[str, Any]:
    """Return the request with the audio of its row, and with the fields of the configuration's flags.

    Raises `InputError` for audio that cannot be read.
    """
    body = (
        await asyncio.to_thread(with_audio, chat, config.audio_root) if chat.get("metadata") else dict(chat)
    )
    if config.continue_final_assistant_message and _last(body).get("role") == "assistant":
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    if config.forward_session_id_as_conversation_id and session is not None:
        body["conversation_params"] = {"conversation_id": session}
    return body


def ends_in_empty_answer(chat: Mapping[str, Any]) -> bool:
    """Return whether the history ends in an assistant message without text and tool calls."""
    last = _last(chat)
    return last.get("role") == "assistant" and not (last.get("content") or last.get("tool_calls"))


def _last(chat: Mapping[str, Any]) -> Mapping[str, Any]:
    messages = chat.get("messages")
    return messages[-1] if isinstance(messages, list) and messages else {}


def rejoin_continued_text(body: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Move the reasoning of a continued message back to its text: engines parse a continuation as reasoning."""
    if not body.get("continue_final_message"):
        return
    for choice in answer.get("choices") or ():
        message = choice.get("message") or {}
        texts = [message.pop(field, None) for field in REASONING_FIELDS]
        message["content"] = (next(filter(None, texts), "")) + (message.get("content") or "")
