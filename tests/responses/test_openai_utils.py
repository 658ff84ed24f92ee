import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import orjson

import nemo_gym.openai_utils as openai_utils
from nemo_gym.openai_utils import (
    NeMoGymEasyInputMessage,
    NeMoGymFunctionCallOutput,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseFunctionToolCall,
    NeMoGymResponseInputText,
    NeMoGymResponseInputTokensDetails,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputMessageForTraining,
    NeMoGymResponseOutputText,
    NeMoGymResponseOutputTokensDetails,
    NeMoGymResponseReasoningItem,
    NeMoGymResponseUsage,
    NeMoGymSummary,
)

NAMES_OF_THE_ECOSYSTEM = (
    "NeMoGymResponse",
    "NeMoGymResponseCreateParamsNonStreaming",
    "NeMoGymResponseOutputMessage",
    "NeMoGymEasyInputMessage",
    "NeMoGymMessage",
    "NeMoGymResponseOutputText",
    "NeMoGymResponseOutputRefusal",
    "NeMoGymResponseFunctionToolCall",
    "NeMoGymFunctionCallOutput",
    "NeMoGymResponseReasoningItem",
    "NeMoGymSummary",
    "NeMoGymChatCompletionCreateParamsNonStreaming",
    "NeMoGymResponseUsage",
    "NeMoGymChatCompletion",
    "NeMoGymResponseInputTokensDetails",
    "NeMoGymResponseOutputTokensDetails",
    "NeMoGymResponseOutputItem",
    "accumulate_response_usage",
    "NeMoGymAsyncOpenAI",
    "NeMoGymResponseOutputMessageForTraining",
    "NeMoGymResponseFunctionToolCallForTraining",
    "NeMoGymResponseReasoningItemForTraining",
    "NeMoGymEasyInputMessageForTraining",
    "NeMoGymMessageForTraining",
    "NeMoGymChatCompletionMessageForTraining",
    "NeMoGymChoice",
    "NeMoGymChatCompletionMessage",
    "NeMoGymResponseInput",
    "NeMoGymResponseInputItem",
    "NeMoGymResponseInputText",
    "NeMoGymFunction",
    "NeMoGymFunctionDefinition",
    "NeMoGymFunctionToolParam",
    "NeMoGymChatCompletionMessageToolCall",
    "NeMoGymChatCompletionSystemMessageParam",
    "NeMoGymChatCompletionUserMessageParam",
    "NeMoGymChatCompletionDeveloperMessageParam",
    "NeMoGymChatCompletionAssistantMessageParam",
    "NeMoGymChatCompletionAssistantMessageForTrainingParam",
    "NeMoGymChatCompletionToolMessageParam",
    "NeMoGymChatCompletionMessageParam",
    "NeMoGymChatCompletionToolParam",
    "NeMoGymChatCompletionMessageToolCallParam",
    "NeMoGymChatCompletionMessageToolCallFunctionParam",
    "NeMoGymChatCompletionContentPartTextParam",
    "RETRY_ERROR_CODES",
    "RATE_LIMIT_ERROR_CODES",
    "RESPONSES_TO_TRAIN",
    "TokenIDLogProbMixin",
    "TokenIDLogProbTypedDictMixin",
    "training_variant_of",
    "NeMoGymContent",
)


def test_every_name_that_environments_import_is_there() -> None:
    assert [name for name in NAMES_OF_THE_ECOSYSTEM if not hasattr(openai_utils, name)] == []


def test_the_import_brings_no_openai_and_no_http_client() -> None:
    code = "import sys, nemo_gym.openai_utils; print({'openai', 'aiohttp', 'fastapi'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_environments_construct_items_by_keyword() -> None:
    response = NeMoGymResponse(
        id="resp",
        created_at=0.0,
        model="m",
        object="response",
        output=[
            NeMoGymResponseReasoningItem(
                id="r", summary=[NeMoGymSummary(text="hm", type="summary_text")], type="reasoning"
            ),
            NeMoGymResponseFunctionToolCall(
                call_id="c", name="add", arguments="{}", type="function_call", id="c", status="completed"
            ),
            NeMoGymFunctionCallOutput(type="function_call_output", call_id="c", output="3"),
            NeMoGymResponseOutputMessage(
                id="x",
                content=[NeMoGymResponseOutputText(annotations=[], text="hi", type="output_text")],
                role="assistant",
                status="completed",
                type="message",
            ),
        ],
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        usage=NeMoGymResponseUsage(
            input_tokens=1,
            input_tokens_details=NeMoGymResponseInputTokensDetails(cached_tokens=0),
            output_tokens=1,
            output_tokens_details=NeMoGymResponseOutputTokensDetails(reasoning_tokens=0),
            total_tokens=2,
        ),
    )
    assert response.output_text == "hi"
    assert NeMoGymResponse.model_validate(response.model_dump()) == response
    assert NeMoGymResponse.model_validate(response.model_dump(exclude_unset=True)) == response


def test_an_input_text_is_a_dict() -> None:
    part = NeMoGymResponseInputText(type="input_text", text="hi")
    message = NeMoGymEasyInputMessage(role="user", content=[part])
    params = NeMoGymResponseCreateParamsNonStreaming(input=[message])
    assert params.model_dump(exclude_unset=True)["input"][0]["content"] == [
        {"type": "input_text", "text": "hi"}
    ]


def response_of_twenty_items() -> dict[str, Any]:
    tokens = {
        "prompt_token_ids": list(range(100_000, 100_350)),
        "generation_token_ids": list(range(60)),
        "generation_log_probs": [-0.123456789] * 60,
    }
    output: list[dict[str, Any]] = []
    for turn in range(5):
        output += [
            {
                "type": "reasoning",
                "id": f"rs_{turn}",
                "summary": [{"type": "summary_text", "text": "think " * 60}],
            },
            {
                "type": "message",
                "id": f"msg_{turn}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "word " * 100, "annotations": []}],
            },
            {
                "type": "function_call",
                "id": f"fc_{turn}",
                "call_id": f"call_{turn}",
                "name": "search",
                "arguments": '{"query": "x"}',
                "status": "completed",
                **tokens,
            },
            {"type": "function_call_output", "call_id": f"call_{turn}", "output": "found " * 50},
        ]
    return {"id": "r", "created_at": 0.0, "model": "m", "object": "response", "output": output}


def test_validating_a_response_tries_one_model_per_item() -> None:
    plain = response_of_twenty_items()
    body = orjson.dumps(plain)
    assert 20_000 < len(body) < 40_000
    response = NeMoGymResponse.model_validate(plain)
    assert isinstance(response.output[1], NeMoGymResponseOutputMessage)
    assert not isinstance(response.output[1], NeMoGymResponseOutputMessageForTraining)
    assert python_calls_of(lambda: NeMoGymResponse.model_validate(plain)) < 15 * len(response.output)


def python_calls_of(work: Callable[[], object]) -> int:
    """The number of Python functions that `work` calls; pydantic's compiled code does not count."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls
