"""`/tokenize` and `/detokenize`: messages or text to token ids, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.mock_engine.engine import Engine
from nemo_gym.mock_engine.refusals import Refusal
from nemo_gym.mock_engine.request import chat_tools, check_messages


def tokenize(engine: Engine, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of `/tokenize`'s answer. Raises Refusal."""
    ids = engine.tokenizer.encode(_render_text(engine, payload))
    token_strs = (
        [engine.tokenizer.decode([token]) for token in ids] if payload.get("return_token_strs") else None
    )
    return {
        "count": len(ids),
        "max_model_len": engine.options.max_model_len,
        "tokens": ids,
        "token_strs": token_strs,
    }


def _render_text(engine: Engine, payload: Mapping[str, Any]) -> str:
    if isinstance(payload.get("prompt"), str):
        return str(payload["prompt"])
    messages = check_messages(payload.get("messages"), "messages")
    tools = chat_tools(payload) if payload.get("tools") else ()
    opens_reply = payload.get("add_generation_prompt") is not False
    try:
        return engine.template.prompt(messages, tools, opens_reply=opens_reply)
    except ValueError as error:
        raise Refusal(str(error)) from error


def detokenize(engine: Engine, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of `/detokenize`'s answer. Raises Refusal."""
    ids = payload.get("tokens")
    if not isinstance(ids, list) or not all(isinstance(token, int) for token in ids):
        raise Refusal("`tokens` must be a list of token ids.", param="tokens")
    try:
        return {"prompt": engine.tokenizer.decode(ids)}
    except ValueError as error:
        raise Refusal(str(error), param="tokens") from error
