"""The keys of `vllm_model`: ours, and those of the ecosystem under their names.

A key of the ecosystem that has a counterpart here is mapped to it in `_map_ecosystem_keys`, and nowhere else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from nemo_gym.engines.engine import ENGINE_RETRY
from nemo_gym.engines.engine_model import EngineModelConfig
from nemo_gym.transport import RetryBudget

_NOT_OURS_TO_SET = frozenset({"input", "messages", "model", "n", "stream", "stream_options", "tools"})
_TEMPLATE = "chat_template_kwargs"


class VLLMModelConfig(EngineModelConfig):
    base_url: str | list[str]
    """One URL, or one per replica; usually ends in `/v1`. A session always uses the same replica."""
    api_key: str = Field(repr=False)
    model: str
    return_token_id_information: bool = False
    """Request token ids and log-probabilities from the engine, and attach a record of them to the last output item of
    every call, or to the message of a chat completion (docs/tokens.md)."""
    token_fields: Literal["contract", "packed", "lists"] = "contract"
    """The format of the record: `contract` for trainers that read `prompt_token_ids`, `generation_token_ids` and
    `generation_log_probs`; `packed` for long rollouts, because the size of `contract` grows with the square of the
    turns; `lists` is human-readable."""
    exact_prompts: bool | Literal["required_prefix", "history_ids"] = True
    """If the engine accepts token ids, send the recorded ids of a conversation instead of rendering them again. True
    finds the method. `required_prefix` sends `required_prefix_token_ids`, and `history_ids` sends `prompt_token_ids`
    and `generation_token_ids` with the last answer in the messages, without asking."""
    on_abort: Literal["continue", "retry", "fail"] = "continue"
    """If the engine aborts a generation, such as in a pause for new weights: `continue` it from its sampled tokens, if
    token ids are requested, otherwise ask again; `retry` asks the call again from its beginning; `fail` fails it, and
    its attempt is made again (docs/train_asynchronously.md)."""
    linkage_room_mb: float = Field(default=1024, gt=0)
    """Memory for the token ids of open conversations, in MB; beyond it the oldest ones start new segments."""
    uses_reasoning_parser: bool = True
    """Parse `<think>` blocks at the start of an answer as reasoning, if the engine has not parsed them."""
    reasoning_opened_by_template: bool = False
    """The chat template writes the opening `<think>`, so an answer starts inside the block."""
    uses_interleaved_reasoning: bool = True
    """Send the reasoning of earlier turns with the history."""
    restores_reasoning: bool = True
    """With token ids: put the reasoning of earlier answers back into chat requests of clients that send none, so that
    their conversations stay one segment. The note `restored_reasoning` counts these calls."""
    replace_developer_role_with_system: bool = False
    is_responses_native: bool = False
    """Pass Responses requests to the engine's own `/v1/responses`, which returns no token ids."""
    reasoning_field: Literal["reasoning", "reasoning_content", "both"] | None = None
    """The message fields for the reasoning of earlier turns. By default both until the engine's answers show which one
    it uses; `both` is for engines that answer with one field and read the other."""
    preserve_reasoning_in_assistant_content: bool = False
    """Send the reasoning of earlier turns as `<think>` blocks in the text of the message."""
    sequential_reasoning_allowed: bool = True
    """If false, a history that ends in an answer without text and tool calls is not sent; it is filtered."""
    continue_final_assistant_message: bool = False
    """If the history ends in an assistant message, the engine continues it."""
    propagate_context_overflow_errors: bool = True
    """If false, the answer to a prompt that is too long is empty and truncated, instead of an error."""
    forward_session_id_as_conversation_id: bool = False
    """Send the session as `conversation_params`, for TensorRT-LLM servers that route by it."""
    forward_request_chat_template_kwargs: bool = True
    """If false, `chat_template_kwargs` of a chat request are left out; those of its metadata are not."""
    audio_root: str | None = None
    """The folder of the files in `metadata.audio_path` and `metadata.audio_paths` of a row. No other file is read."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Default arguments of the chat template; a request can override them."""
    sampling_overrides: dict[str, Any] = Field(default_factory=dict)
    """Sampling fields that override the request, such as `temperature` or `top_k`."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Fields of every engine request; they override the request."""
    default_headers: dict[str, str] = Field(default_factory=dict, repr=False)
    min_new_tokens: int = Field(default=16, ge=1)
    """The token limit of a request is lowered to the rest of the context if that rest is at least this many tokens."""
    retry_s: float = Field(default=60.0, ge=0)
    """Seconds after which a request to a busy or unreachable engine is not retried."""
    max_concurrent_requests: int | None = Field(default=None, ge=1)
    """Requests to the engine at a time; further ones wait in the order of their arrival."""
    endpoint_file: str | None = None
    """A file that contains the current base URL of an engine that moves between hosts; it replaces `base_url`."""
    endpoint_check_interval_s: float = Field(default=10.0, ge=0)
    endpoint_stale_grace_s: float = Field(default=300.0, ge=0)
    """Seconds for which the last URL is used after the file has become absent or empty."""
    endpoint_connection_retries: int | None = Field(default=8, ge=1)
    """Attempts of a request if there is an endpoint file."""
    supply_prefix_token_ids: bool = False
    """The ecosystem's name for `exact_prompts: required_prefix`."""
    request_prompt_and_generation_token_ids: bool | None = None
    """Accepted and without effect: `return_token_id_information` always requests both lists."""
    use_completions_api: bool = False
    render_chat_template: bool = False
    tokenizer: str | None = None

    @field_validator("use_completions_api", "render_chat_template", "tokenizer")
    @classmethod
    def _refuse_local_rendering(cls, value: Any) -> Any:
        if value:
            raise ValueError("the engine renders prompts; remove this key")
        return value

    @field_validator("default_headers", "extra_body", "sampling_overrides", mode="before")
    @classmethod
    def _read_null(cls, value: Any) -> Any:
        return {} if value is None else value  # the ecosystem writes null for no fields

    @model_validator(mode="after")
    def _map_ecosystem_keys(self) -> Self:
        if self.supply_prefix_token_ids:
            if not self.return_token_id_information:
                raise ValueError("supply_prefix_token_ids needs return_token_id_information: true")
            self.exact_prompts = "required_prefix"
        return self

    @field_validator("extra_body", "sampling_overrides")
    @classmethod
    def _refuse_what_requests_say(cls, value: dict[str, Any]) -> dict[str, Any]:
        given = sorted(_NOT_OURS_TO_SET & value.keys())
        if given:
            raise ValueError(f"{', '.join(given)} cannot be set for every request")
        return value

    @model_validator(mode="after")
    def _check_native_responses(self) -> Self:
        if self.is_responses_native and self.return_token_id_information:
            raise ValueError(
                "vLLM's own /v1/responses returns no token ids: set is_responses_native to false"
            )
        if self.is_responses_native and (self.chat_template_kwargs or _TEMPLATE in self.extra_body):
            raise ValueError(
                "vLLM's own /v1/responses does not support chat_template_kwargs: set is_responses_native to false"
            )
        return self

    def retry_budget(self) -> RetryBudget:
        """Return the limits for a request; a moving engine may have its own number of attempts."""
        budget = replace(ENGINE_RETRY, seconds=self.retry_s)
        if self.endpoint_file is None or self.endpoint_connection_retries is None:
            return budget
        return replace(budget, attempts=self.endpoint_connection_retries)
