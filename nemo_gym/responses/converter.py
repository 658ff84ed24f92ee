"""The conversion of `nemo_gym.responses` with typed models, under the names that environments import.

Code that uses these names expects the reasoning of earlier turns as `<think>…</think>` in the text, and the token
limit as `max_tokens`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from nemo_gym.responses._chat_request import build_chat_request
from nemo_gym.responses._content_parts import present
from nemo_gym.responses._responses_request import TARGET, convert_chat_request
from nemo_gym.responses.dialects import (
    TRAINING_FIELDS,
    BadArguments,
    Dialect,
    InlineThinking,
    ReasoningHistory,
)
from nemo_gym.responses.history_items import convert_message_to_items
from nemo_gym.responses.problems import ConversionProblems
from nemo_gym.responses.reasoning import split_thinking
from nemo_gym.responses.responses_answer import build_output_items, convert_chat_to_response

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from nemo_gym.responses.chat_schemas import ChatChoice, ChatCompletion, ChatCompletionCreateParams
    from nemo_gym.responses.items import ResponseOutputItem
    from nemo_gym.responses.schemas import Response, ResponseCreateParams

_Item = TypeVar("_Item")

_GENERATED_TYPES = frozenset({"reasoning", "mcp_approval_request", "mcp_list_tools"})
"""Types of items that a model generates, beside messages of the assistant and every `…_call`."""


@dataclass(frozen=True, kw_only=True)
class ResponsesConverter:
    """Converts typed requests and answers between the two APIs."""

    return_token_id_information: bool
    """True if the token fields of trained items and messages are copied."""
    uses_reasoning_parser: bool = True
    """True if leading `<think>…</think>` blocks of an answer become reasoning items."""

    @property
    def dialect(self) -> Dialect:
        return Dialect(
            max_tokens_field="max_tokens",
            reasoning_history=ReasoningHistory.INLINE,
            inline_thinking=InlineThinking.LEADING if self.uses_reasoning_parser else InlineThinking.LITERAL,
            bad_arguments=BadArguments.KEEP,
            merge_metadata_extras=False,
            keep_token_ids=self.return_token_id_information,
        )

    # --- Requests -----------------------------------------------------------------------------------------------

    def responses_to_chat_completion_create_params(
        self, responses_create_params: ResponseCreateParams
    ) -> ChatCompletionCreateParams:
        """Raises `InputError` that names every field that can't be expressed."""
        from nemo_gym.responses.chat_schemas import ChatCompletionCreateParams

        params = responses_create_params.model_dump(by_alias=True, exclude_unset=True)
        return ChatCompletionCreateParams.model_validate(build_chat_request(params, self.dialect).body)

    def chat_completion_to_responses_create_params(
        self, chat_completion_create_params: ChatCompletionCreateParams
    ) -> ResponseCreateParams:
        """Raises `InputError` that names every field that can't be expressed."""
        from nemo_gym.responses.schemas import ResponseCreateParams

        body = chat_completion_create_params.model_dump(by_alias=True, exclude_unset=True)
        return ResponseCreateParams.model_validate(convert_chat_request(body, self.dialect).body)

    # --- Answers ------------------------------------------------------------------------------------------------

    def postprocess_chat_response(self, choice: ChatChoice) -> list[ResponseOutputItem]:
        """The output items of a chat choice."""
        return self.postprocess_assistant_message_dict(choice.message.model_dump(exclude_none=True))

    def postprocess_assistant_message_dict(self, message_dict: Mapping[str, Any]) -> list[ResponseOutputItem]:
        """The output items of an assistant message; the last one carries its token fields."""
        return _items_adapter().validate_python(self._build_output_items(message_dict))

    def chat_completion_to_response(
        self,
        responses_create_params: ResponseCreateParams,
        chat_completion: ChatCompletion,
    ) -> Response:
        """Raises `EngineError` for a failed or malformed answer."""
        from nemo_gym.responses.schemas import Response

        chat = chat_completion.model_dump(by_alias=True)
        params = responses_create_params.model_dump(by_alias=True)
        answer = convert_chat_to_response(chat, params, ids=_new_id, now=time.time(), dialect=self.dialect)
        self._put_token_fields(answer.response["output"], chat["choices"][0]["message"])
        return Response.model_validate(answer.response)

    # --- Histories ----------------------------------------------------------------------------------------------

    def chat_completions_messages_to_responses_items(
        self, messages: Sequence[Mapping[str, Any]]
    ) -> list[ResponseOutputItem]:
        """Return the items of a chat transcript. Assistant items are output items with ids."""
        problems = ConversionProblems()
        items: list[dict[str, Any]] = []
        for index, message in enumerate(messages):
            if message.get("role") == "assistant":
                items += self._build_output_items(message)
            else:
                filled = {**message, "content": ""} if message.get("content") is None else message
                items += convert_message_to_items(filled, f"messages[{index}]", problems, self.dialect)
        problems.raise_if_any(TARGET)
        return _items_adapter().validate_python(items)

    def _build_output_items(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        items = build_output_items(message, ids=_new_id, dialect=self.dialect).items
        self._put_token_fields(items, message)
        return items

    def _put_token_fields(self, items: list[dict[str, Any]], message: Mapping[str, Any]) -> None:
        if self.return_token_id_information:
            items[-1].update(present(message, *TRAINING_FIELDS))

    def _extract_reasoning_from_content(self, content: str) -> tuple[list[str], str]:
        """Return the reasoning and the answer in a text. Environments call this method despite its private name."""
        blocks, answer, _ = split_thinking(content, self.dialect)
        return list(blocks), answer


VLLMConverter = ResponsesConverter


class VLLMConverterResponsesToChatCompletionsState:
    """The ecosystem's name for the progress of a conversion. Conversions of this gym have no state."""


def split_responses_input_output_items(items: Sequence[_Item]) -> tuple[Sequence[_Item], Sequence[_Item]]:
    """Split the items of an episode before the first generated item: the input, and all later items."""
    start = next((index for index, item in enumerate(items) if _is_generated(item)), len(items))
    return items[:start], items[start:]


def _is_generated(item: object) -> bool:
    read = item.get if isinstance(item, Mapping) else partial(getattr, item)
    kind, role = read("type", None), read("role", None)
    if role is not None:
        return bool(role == "assistant")
    return isinstance(kind, str) and (kind in _GENERATED_TYPES or kind.endswith("_call"))


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid4().hex}"


@cache
def _items_adapter() -> TypeAdapter[list[ResponseOutputItem]]:
    from pydantic import TypeAdapter

    from nemo_gym.responses.items import ResponseOutputItem

    return TypeAdapter(list[ResponseOutputItem])
