from __future__ import annotations

from nemo_gym.rollouts.lookback.health.rows import CheckedCall, CheckedRow
from nemo_gym.rows.identity import RolloutId


def row_of(*output: object, **fields: object) -> CheckedRow:
    return CheckedRow(1, RolloutId(0, 0), {"response": {"output": list(output)}, **fields})


def test_inputs_of_the_model_divide_its_turns() -> None:
    row = row_of(
        {"type": "reasoning", "summary": [{"text": "think"}]},
        {"type": "function_call", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "output": "3"},
        {"type": "custom_tool_call", "name": "patch", "input": "diff"},
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    )
    assert [turn.text for turn in row.turns] == ["think\n\n{}", "diff", "done"]
    assert row.calls == [CheckedCall("add", "{}"), CheckedCall("patch", "diff")]
    assert list(row.tool_results) == ["3"]
    assert [turn.is_answer for turn in row.turns] == [True, True, True]


def test_a_refusal_and_a_hosted_call_are_answers_and_reasoning_is_none() -> None:
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    result = {"type": "function_call_output", "output": []}
    row = row_of(refusal, result, {"type": "web_search_call"}, result, {"type": "reasoning", "summary": []})
    assert [turn.is_answer for turn in row.turns] == [True, True, False]


def test_damaged_rows_have_no_turns_and_no_prompt() -> None:
    assert row_of("text", None).turns == []
    assert CheckedRow(1, RolloutId(0, 0), {"responses_create_params": [], "response": 1}).prompt == ""
    assert row_of(responses_create_params={"input": "hi"}).prompt == "hi"
    assert (
        row_of(responses_create_params={"input": [{"content": [{"text": "a"}, {"text": None}]}, 3]}).prompt
        == "a\n"
    )
