"""The fields of requests, grouped by their treatment in the conversion between the APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from nemo_gym.responses._content_parts import present
from nemo_gym.responses.problems import UNKNOWN_FIELD, ConversionProblems

CARRIED_FIELDS = frozenset(
    {
        # Fields of the same name and meaning in both APIs.
        "model",
        "moderation",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "temperature",
        "top_p",
        "user",
        # Extras of engines, which the Responses API does not define: those of OpenAI's chat API and every engine.
        "frequency_penalty",
        "logit_bias",
        "presence_penalty",
        "seed",
        "stop",
        # Sampling, as vLLM and SGLang take it.
        "allowed_token_ids",
        "bad_words",
        "ignore_eos",
        "include_stop_str_in_output",
        "length_penalty",
        "min_p",
        "min_tokens",
        "repetition_penalty",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "stop_token_ids",
        "thinking_token_budget",
        "top_k",
        "truncate_prompt_tokens",
        "use_beam_search",
        # Chat templates and structured output.
        "add_generation_prompt",
        "add_special_tokens",
        "chat_template",
        "chat_template_kwargs",
        "continue_final_message",
        "documents",
        "guided_choice",
        "guided_grammar",
        "guided_json",
        "guided_regex",
        "include_reasoning",
        "mm_processor_kwargs",
        "separate_reasoning",
        "structured_outputs",
        # Fields of the answer, and scheduling.
        "cache_salt",
        "echo",
        "kv_transfer_params",
        "logprob_token_ids",
        "priority",
        "prompt_logprobs",
        "request_id",
        "required_prefix_token_ids",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "session_id",
        "vllm_xargs",
    }
)
"""Fields that are copied unchanged."""

STREAM_FIELDS = frozenset({"stream", "stream_options"})
"""Fields that the server handles: it requests a whole answer from the engine and creates the stream from it."""

RESPONSES_LIMITS = ("max_output_tokens", "max_completion_tokens", "max_tokens")
"""Fields of a Responses request that limit the answer: the API's own, and those of chat as extras."""

CHAT_LIMITS = ("max_completion_tokens", "max_tokens")

INCLUDE_LOGPROBS = "message.output_text.logprobs"
KNOWN_INCLUDES = (INCLUDE_LOGPROBS, "reasoning.encrypted_content")
"""Values of `include`. A tuple, because a request may contain values that cannot be hashed."""

RESPONSES_ONLY: Mapping[str, tuple[str, Sequence[Any]]] = {
    "previous_response_id": ("no responses are kept; send the whole conversation as `input`", ()),
    "conversation": ("no conversations are kept; send the whole conversation as `input`", ()),
    "background": ("answers are given in the foreground", (False,)),
    "background_options": ("answers are given in the foreground", ()),
    "truncation": ("conversations are never shortened automatically", ("disabled",)),
    "prompt": ("prompt templates live at their provider; send `input`", ()),
    "max_tool_calls": ("it bounds hosted tools, of which there are none", ()),
    "context_management": ("conversations are never shortened automatically", ([],)),
}
"""Fields of the Responses API without an equivalent: the reason, and the values without effect."""

CHAT_ONLY: Mapping[str, tuple[str, Sequence[Any]]] = {
    "n": ("one answer is given to a request", (1,)),
    "modalities": ("answers are text", (["text"],)),
    "audio": ("answers are text", ()),
    "prediction": ("there are no predicted outputs", ()),
    "functions": ("write `tools`", ([],)),
    "function_call": ("write `tool_choice`", ("auto", "none")),
    "web_search_options": ("there are no hosted tools", ()),
}
"""Fields of Chat Completions without an equivalent: the reason, and the values without effect."""


def carry_fields(
    given: Mapping[str, Any],
    converted: dict[str, Any],
    handled: AbstractSet[str],
    refused: Mapping[str, tuple[str, Sequence[Any]]],
    problems: ConversionProblems,
) -> None:
    """Copy the fields of `given` that both APIs have, except those `handled` elsewhere.

    A field that the other API lacks is a problem, unless its value has no effect.
    """
    for name, value in given.items():
        if value is None or name in handled or name in STREAM_FIELDS:
            continue
        if name in CARRIED_FIELDS:
            converted[name] = value
            continue
        reason, harmless = refused.get(name, (UNKNOWN_FIELD, ()))
        if not any(type(value) is type(asks_nothing) and value == asks_nothing for asks_nothing in harmless):
            problems.add(name, reason)


def put_limit(
    given: Mapping[str, Any],
    names: Sequence[str],
    converted: dict[str, Any],
    target: str,
    problems: ConversionProblems,
) -> None:
    """Set the token limit of the answer, the field `target`. Several of the fields `names` may state it.

    Different values are a problem.
    """
    limits = present(given, *names)
    if limits:
        converted[target] = next(iter(limits.values()))
    for name, limit in limits.items():
        if type(limit) is not int:
            problems.add(name, "must be an integer")
        elif any(limit != other for other in limits.values()):
            problems.add(name, f"{limit} disagrees with the request's other bounds on the answer")
