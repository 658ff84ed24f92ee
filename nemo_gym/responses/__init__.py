"""Conversion between the Responses API, Chat Completions and Anthropic's Messages API, as plain JSON data.

Pure functions without I/O, clocks or randomness: the caller passes ids and time. A field without an equivalent raises
an `InputError` that names it and is never dropped silently; changed values are reported in notes. Builds on `failures`.

    schemas, items, hosted_items, chat_schemas, wire   typed models of requests, answers and items
    dialects                                           differences between engines
    messages_api, messages_request                     Anthropic's Messages API
    responses_answer, finish, engine_errors            answers of engines, and their failures
    reasoning, tools, arguments, logprobs              parts of messages
    history_items, metadata_extras, problems           history items, engine extras, notes and problems
    converter                                          the conversion with typed models, for environment authors
"""

from nemo_gym.responses._chat_answer import chat_of_response
from nemo_gym.responses._chat_request import chat_request_of
from nemo_gym.responses._chat_stream import chat_chunks, sse_of_chat
from nemo_gym.responses._history import tidy_chat_request
from nemo_gym.responses._overflow import Overflow, OverflowKind, overflow_of
from nemo_gym.responses._responses_request import responses_params_of_chat
from nemo_gym.responses._responses_stream import failed_response, response_events, sse_of_response
from nemo_gym.responses.dialects import OPENAI, VLLM, BadArguments, Dialect, InlineThinking, ReasoningHistory
from nemo_gym.responses.engine_errors import EngineRefusal, engine_failure, parse_answer
from nemo_gym.responses.finish import Finish, FinishKind, finish_of
from nemo_gym.responses.problems import Converted, Note
from nemo_gym.responses.responses_answer import ConvertedAnswer, response_of_chat

__all__ = [
    "OPENAI",
    "VLLM",
    "BadArguments",
    "Converted",
    "ConvertedAnswer",
    "Dialect",
    "EngineRefusal",
    "Finish",
    "FinishKind",
    "InlineThinking",
    "Note",
    "Overflow",
    "OverflowKind",
    "ReasoningHistory",
    "chat_chunks",
    "chat_of_response",
    "chat_request_of",
    "engine_failure",
    "failed_response",
    "finish_of",
    "overflow_of",
    "parse_answer",
    "response_events",
    "response_of_chat",
    "responses_params_of_chat",
    "sse_of_chat",
    "sse_of_response",
    "tidy_chat_request",
]
