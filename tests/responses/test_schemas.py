import pickle
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from openai.types.responses import Response as OpenAIResponse
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import BaseModel, ValidationError

from nemo_gym.responses.chat_schemas import ChatCompletion, ChatCompletionCreateParams
from nemo_gym.responses.items import (
    EasyInputMessage,
    FunctionToolCall,
    FunctionToolCallForTraining,
    OutputMessage,
    OutputText,
)
from nemo_gym.responses.schemas import (
    InputTokensDetails,
    OutputTokensDetails,
    Response,
    ResponseCreateParams,
    ResponseUsage,
    accumulate_response_usage,
)

EXAMPLES = Path(__file__).parents[3] / "shared" / "data" / "environment_examples"

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TEXT = {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}
TOOL = {"type": "function", "name": "add", "parameters": SCHEMA, "strict": True}

OUTPUT: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "add",
        "arguments": '{"a": 1}',
        "status": "completed",
    },
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q", "queries": ["q"]},
    },
    {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": [{"name": "t", "input_schema": {}}]},
]

ANSWER: dict[str, Any] = {
    "id": "resp_1",
    "created_at": 1760000000.0,
    "model": "policy",
    "object": "response",
    "output": OUTPUT,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [TOOL],
    "status": "completed",
    "text": TEXT,
    "reasoning": {"effort": "low"},
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    },
}


def minimal(**fields: Any) -> Response:
    return Response.model_validate({"id": "r", "created_at": 0, "model": "m", "output": [], **fields})


# --- Answers


def test_an_answer_survives_validation_and_dump() -> None:
    answer = Response.model_validate(ANSWER)
    assert answer.model_dump(exclude_unset=True) == ANSWER
    assert Response.model_validate_json(answer.model_dump_json()) == answer


def test_an_answer_can_be_copied_and_sent_to_another_process() -> None:
    answer = Response.model_validate(ANSWER)
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert answer.model_copy(deep=True) == answer


@pytest.mark.parametrize(
    "model", [Response, ResponseCreateParams, ChatCompletion, ChatCompletionCreateParams]
)
def test_every_model_has_a_json_schema_for_the_servers_docs(model: type[BaseModel]) -> None:
    assert model.model_json_schema()["properties"]


def test_unknown_fields_of_an_answer_are_kept() -> None:
    answer = minimal(kv_transfer_params={"a": 1}, usage={"input_tokens": 1, "num_sources_used": 3})
    dumped = orjson.loads(answer.model_dump_json())
    assert dumped["kv_transfer_params"] == {"a": 1}
    assert dumped["usage"]["num_sources_used"] == 3


def test_what_older_engines_leave_out_or_null_gets_the_defaults() -> None:
    answer = minimal(
        tools=None,
        tool_choice=None,
        parallel_tool_calls=None,
        object=None,
        status=None,
        output=[{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}],
        usage={"input_tokens": 3, "output_tokens": None, "input_tokens_details": None},
    )
    assert (answer.tools, answer.tool_choice, answer.parallel_tool_calls) == ([], "auto", True)
    assert answer.output_text == "hi"
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 0)
    assert answer.usage.input_tokens_details.cached_tokens == 0


def test_the_output_text_is_what_the_messages_say() -> None:
    said = [
        OutputMessage(content=[OutputText(text="a"), OutputText(text="b")]),
        FunctionToolCall(call_id="c", name="f", arguments="{}"),
        EasyInputMessage(role="user", content="not the model's"),
        OutputMessage(content=[OutputText(text="c")]),
    ]
    assert Response(id="r", created_at=0, model="m", output=said).output_text == "abc"
    assert minimal().output_text == ""


def test_details_of_errors_and_of_incomplete_answers_are_attributes() -> None:
    answer = minimal(
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
        error={"code": "server_error", "message": "boom"},
    )
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.error is not None
    assert answer.error.message == "boom"


# --- The openai package


def openai_answer() -> OpenAIResponse:
    return OpenAIResponse.model_validate({**ANSWER, "usage": {**ANSWER["usage"]}})


@pytest.mark.parametrize("by_alias", [True, False])
def test_what_the_openai_package_dumps_is_accepted(by_alias: bool) -> None:
    answer = Response.model_validate(openai_answer().model_dump(by_alias=by_alias))
    assert type(answer.output[2]) is FunctionToolCall
    assert answer.tools[0]["name"] == "add"


def test_the_schema_of_a_text_format_keeps_its_name_on_the_wire() -> None:
    from_dump = Response.model_validate(openai_answer().model_dump())
    from_object = Response.model_validate(openai_answer())
    for answer in (from_dump, from_object):
        for dumped in (answer.model_dump(), orjson.loads(answer.model_dump_json())):
            assert dumped["text"]["format"]["schema"] == SCHEMA
            assert "schema_" not in dumped["text"]["format"]


def test_an_object_of_the_openai_package_is_read_by_its_attributes() -> None:
    answer = Response.model_validate(openai_answer())
    assert [type(item).__name__ for item in answer.output] == [
        "ReasoningItem",
        "OutputMessage",
        "FunctionToolCall",
        "WebSearchCall",
        "McpListTools",
    ]
    assert answer.output_text == "hi"
    assert answer.tools == [TOOL]
    assert answer.usage is not None
    assert answer.usage.input_tokens_details.cached_tokens == 4
    assert Response.model_validate(orjson.loads(answer.model_dump_json())) == answer


def test_items_of_the_openai_package_keep_the_fields_it_does_not_declare() -> None:
    call = (
        openai_answer()
        .output[2]
        .model_copy(
            update={
                "prompt_token_ids": [1],
                "generation_token_ids": [2],
                "generation_log_probs": [0.0],
                "x": 1,
            }
        )
    )
    for item in (minimal(output=[call]).output[0], ResponseCreateParams(input=[cast(Any, call)]).input[0]):
        assert type(item) is FunctionToolCallForTraining
        assert item.model_dump()["x"] == 1


def test_the_request_has_every_field_of_the_api() -> None:
    theirs = set(ResponseCreateParamsBase.__annotations__) | {"stream"}
    assert theirs - set(ResponseCreateParams.model_fields) == set()


# --- Requests


def test_an_unknown_field_of_a_request_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="max_tokens\n  Extra inputs are not permitted"):
        ResponseCreateParams.model_validate({"input": "x", "max_tokens": 3})


def test_a_request_has_the_api_s_defaults() -> None:
    request = ResponseCreateParams(input="x")
    assert (request.parallel_tool_calls, request.tool_choice, request.tools) == (True, "auto", [])
    assert request.model_dump(exclude_unset=True) == {"input": "x"}
    assert ResponseCreateParams.model_validate({"input": "x", "tools": None, "tool_choice": None}).tools == []


def test_tools_stay_dicts_with_every_key() -> None:
    tools = [{**TOOL, "defer_loading": True}, {"type": "web_search", "search_context_size": "low"}]
    request = ResponseCreateParams.model_validate({"input": [], "tools": tools})
    assert cast(Any, request.tools[0])["name"] == "add"
    assert request.model_dump()["tools"] == tools


@pytest.mark.parametrize(
    ("field", "value", "location"),
    [
        (
            "tools",
            [{"type": "function", "function": {"name": "add"}}],
            ("tools", 0, "FunctionToolParam", "name"),
        ),
        ("tools", [{"name": "add"}], ("tools", 0, "HostedToolParam", "type")),
        ("stream", True, ("stream",)),
        ("temperature", "hot", ("temperature",)),
        ("truncation", "yes", ("truncation",)),
        ("metadata", {"extra_body": {"seed": 1}}, ("metadata", "extra_body")),
        ("input", [{"role": "user"}], ("input", "items", 0, "EasyInputMessage", "content")),
    ],
)
def test_a_bad_field_of_a_request_is_named(
    field: str, value: object, location: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValidationError) as raised:
        ResponseCreateParams.model_validate({"input": "x", field: value})
    assert [error["loc"] for error in raised.value.errors()] == [location]


def test_an_answer_s_output_goes_back_as_input() -> None:
    answer = Response.model_validate(ANSWER)
    request = ResponseCreateParams(input=[EasyInputMessage(role="user", content="hi"), *answer.output])
    assert request.model_dump(exclude_unset=True)["input"] == [{"role": "user", "content": "hi"}, *OUTPUT]


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason=f"no example rows at {EXAMPLES}")
def test_example_rows_of_public_environments_survive_validation_and_dump() -> None:
    rows = [
        orjson.loads(line)
        for path in sorted(EXAMPLES.glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    assert len(rows) > 500
    for row in rows:
        params = row["responses_create_params"]
        assert ResponseCreateParams.model_validate(params).model_dump(exclude_unset=True) == params


# --- Usage


def usage(count: int, **more: Any) -> ResponseUsage:
    return ResponseUsage(
        input_tokens=count,
        input_tokens_details=InputTokensDetails(cached_tokens=count, **more),
        output_tokens=2 * count,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=count),
        total_tokens=3 * count,
    )


def test_usages_add_up_with_the_counts_that_only_some_engines_report() -> None:
    first, second = usage(1), usage(10, cache_write_tokens=7)
    total = accumulate_response_usage(accumulate_response_usage(None, first), second)
    assert total is not None
    assert (total.input_tokens, total.output_tokens, total.total_tokens) == (11, 22, 33)
    assert total.input_tokens_details.model_dump() == {"cached_tokens": 11, "cache_write_tokens": 7}
    assert total.output_tokens_details.reasoning_tokens == 11
    assert first == usage(1)
    assert ResponseUsage.sum_from_list([first, second]) == total


def test_an_unknown_usage_adds_nothing() -> None:
    known = usage(2)
    assert accumulate_response_usage(None, None) is None
    assert accumulate_response_usage(known, None) == known
    copied = accumulate_response_usage(None, known)
    assert copied == known
    assert copied is not known
    assert ResponseUsage.sum_from_list([]) == ResponseUsage()
