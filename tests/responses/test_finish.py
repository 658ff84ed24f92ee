from typing import Any

import pytest

from nemo_gym.failures import EngineError
from nemo_gym.responses import FinishKind
from nemo_gym.responses.finish import looks_like_tool_call, read_finish

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def choice(
    reason: Any, *, calls: Any = None, content: str | None = None, stop_reason: Any = None
) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "tool_calls": calls}
    return {"message": message, "finish_reason": reason, "stop_reason": stop_reason}


@pytest.mark.parametrize(
    ("reason", "calls", "tokens", "kind", "warnings"),
    [
        ("stop", None, 5, FinishKind.COMPLETE, ()),
        ("stop", [], 5, FinishKind.COMPLETE, ()),
        ("stop", None, 10, FinishKind.COMPLETE, ()),
        ("stop", [CALL], 5, FinishKind.TOOL, ()),
        ("length", None, 10, FinishKind.TRUNCATED, ()),
        ("length", [CALL], 10, FinishKind.TRUNCATED, ()),
        ("tool_calls", [CALL], 5, FinishKind.TOOL, ()),
        ("tool_calls", [CALL], None, FinishKind.TOOL, ()),
        ("tool_calls", [CALL], 10, FinishKind.TRUNCATED, ("relabelled_length",)),
        ("tool_calls", [], 5, FinishKind.COMPLETE, ("tool_calls_missing",)),
        ("content_filter", None, 5, FinishKind.FILTERED, ()),
        ("repetition", None, 5, FinishKind.TRUNCATED, ()),
    ],
)
def test_the_decision_table(
    reason: str, calls: Any, tokens: int | None, kind: FinishKind, warnings: tuple[str, ...]
) -> None:
    finish = read_finish(choice(reason, calls=calls), completion_tokens=tokens, max_tokens=10)
    assert (finish.kind, finish.warnings, finish.finish_reason) == (kind, warnings, reason)


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        ("stop", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("repetition", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
    ],
)
def test_the_status_of_the_response(reason: str, status: str, details: Any) -> None:
    finish = read_finish(choice(reason))
    assert (finish.status, finish.incomplete_details) == (status, details)


@pytest.mark.parametrize("stop_reason", [None, 151645, "\n\n"])
def test_what_stopped_it_is_recorded(stop_reason: Any) -> None:
    assert read_finish(choice("stop", stop_reason=stop_reason)).stop_reason == stop_reason


@pytest.mark.parametrize(
    ("reason", "code", "retryable"),
    [
        ("abort", "engine_abort", True),
        ("error", "engine_error", True),
        (None, "malformed_answer", False),
        ("tired", "malformed_answer", False),
        (["stop"], "malformed_answer", False),
    ],
)
def test_what_is_no_end_is_an_error(reason: Any, code: str, retryable: bool) -> None:
    with pytest.raises(EngineError) as caught:
        read_finish(choice(reason))
    assert (caught.value.failure.code, caught.value.failure.retryable) == (code, retryable)


CALLS_IN_TEXT = [
    '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
    'I will look.\n<tool_call>{"name": "f"',
    '[TOOL_CALLS] [{"name": "f"}]',
    "<function=f>{}</function>",
    '<|python_tag|>{"name": "f"}',
    "<｜tool▁calls▁begin｜>",
    "<|tool_calls_section_begin|>",
    '{"name": "f", "parameters": {"a": 1}}',
    '```json\n{"name": "f", "arguments": {}}\n```',
]
NO_CALLS_IN_TEXT = [
    None,
    "",
    "Call f with a=1.",
    '{"name": "Ada", "age": 36}',
    "Tools: <toolbox>",
    '{"answer": 3}',
]


@pytest.mark.parametrize("content", CALLS_IN_TEXT)
def test_a_call_that_the_parser_left_in_the_text_is_counted(content: str) -> None:
    assert read_finish(choice("stop", content=content), offers_tools=True).warnings == ("unparsed_tool_call",)
    assert read_finish(choice("stop", content=content), offers_tools=False).warnings == ()


@pytest.mark.parametrize("content", NO_CALLS_IN_TEXT)
def test_other_text_is_no_call(content: str | None) -> None:
    assert not looks_like_tool_call(content)
