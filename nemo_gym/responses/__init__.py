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

from nemo_gym.responses._chat_answer import convert_response_to_chat as convert_response_to_chat
from nemo_gym.responses._chat_request import build_chat_request as build_chat_request
from nemo_gym.responses._chat_stream import encode_chat_events as encode_chat_events
from nemo_gym.responses._history import tidy_chat_request as tidy_chat_request
from nemo_gym.responses._overflow import Overflow as Overflow
from nemo_gym.responses._overflow import OverflowKind as OverflowKind
from nemo_gym.responses._responses_request import convert_chat_request as convert_chat_request
from nemo_gym.responses._responses_stream import encode_response_events as encode_response_events
from nemo_gym.responses.dialects import OPENAI as OPENAI
from nemo_gym.responses.dialects import VLLM as VLLM
from nemo_gym.responses.dialects import BadArguments as BadArguments
from nemo_gym.responses.dialects import Dialect as Dialect
from nemo_gym.responses.dialects import InlineThinking as InlineThinking
from nemo_gym.responses.dialects import ReasoningHistory as ReasoningHistory
from nemo_gym.responses.engine_errors import EngineRefusal as EngineRefusal
from nemo_gym.responses.engine_errors import engine_failure as engine_failure
from nemo_gym.responses.engine_errors import parse_answer as parse_answer
from nemo_gym.responses.finish import Finish as Finish
from nemo_gym.responses.finish import FinishKind as FinishKind
from nemo_gym.responses.problems import Converted as Converted
from nemo_gym.responses.problems import Note as Note
from nemo_gym.responses.responses_answer import convert_chat_to_response as convert_chat_to_response
