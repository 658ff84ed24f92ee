"""Scored rows of every kind: tools, images, audio, odd items, tokens in all forms, drift, other conversations."""

from __future__ import annotations

import base64
from typing import Any

from nemo_gym.mock_engine.drifting import ForgetfulTemplate
from nemo_gym.tokens.linkage import Ledger
from nemo_gym.tokens.reasons import MaskReason, SegmentReason
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord, TokenForm
from tests.export.rows import TOOL, call, output, row, text, thought, token_rows
from tests.tokens.captures import captured

PNG = base64.b64encode(b"\x89PNG not really").decode()
WAV = base64.b64encode(b"RIFF not really").decode()
IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "high"}
MCP_CALL = {
    "type": "mcp_call",
    "id": "mcp_1",
    "name": "x",
    "server_label": "s",
    "arguments": "{}",
    "output": "y",
}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}
LISTED: list[list[dict[str, Any]]] = [
    [thought("I think"), text("done")],
    [thought("first"), thought("second"), text("two thoughts")],
    [{"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "opaque"}, text("hidden")],
    [
        {
            "type": "reasoning",
            "id": "rs_3",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "raw"}],
        }
    ],
    [call("Rome"), output("sunny"), text("It is sunny.")],
    [call("Rome", "a"), call("Oslo", "b"), output("cold", "b"), output("hot", "a"), text("Both.")],
    [call("Rome", "a"), text("meanwhile"), output("late", "a"), text("end")],
    [call("Rome", "a"), output("1", "a"), call("Oslo", "a"), output("2", "a")],
    [call("", arguments='{"city": '), output("the arguments are no JSON"), text("sorry")],
    [call("", arguments='{"city":"Rome","n":123456789012345678901234567890}'), output("x")],
    [call("", arguments="[1, 2]"), output("a list")],
    [call("", arguments='{"a": 1.0, "a": 2}'), output("a key twice")],
    [output("nobody asked", "other"), text("odd")],
    [text(""), call("Rome"), output("")],
    [text("before"), call("Rome"), output("x"), text("after"), text("and more")],
    [SEARCH, text("found")],
    [MCP_CALL, {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "raw"}, text("both")],
    [{"type": "message", "role": "user", "content": "and then?"}, text("then this")],
    [text("one"), {"role": "user", "content": [{"type": "input_text", "text": "two"}]}, text("three")],
    [{**text(""), "content": [{"type": "refusal", "refusal": "no"}]}],
    [{**text(""), "content": [*text("a")["content"], *text("b")["content"]]}],
    [{**text("cut"), "status": "incomplete", "extra_field": {"deep": [1, 1.0, True, None]}}],
    [
        {
            "type": "function_call_output",
            "call_id": "x",
            "output": [{"type": "input_text", "text": "part"}, IMAGE],
        }
    ],
    [call("Rome"), {"type": "function_call_output", "call_id": "call_x", "output": {"no": "text"}}],
    [{"role": "tool", "content": "an odd role"}, {"nothing": "known"}],
    [{"type": "message", "role": "assistant", "content": "plain text"}],
]
ASKED = {"role": "user", "content": "?"}
PROMPTS: list[Any] = [
    "a text",
    "",
    [],
    [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello"}],
    [{"role": "developer", "content": "Be short."}, {"type": "message", "role": "user", "content": "Hello"}],
    [{"role": "user", "content": [{"type": "input_text", "text": "See"}, IMAGE]}],
    [{"role": "user", "content": [{"type": "input_image", "image_url": "https://example.org/a.jpg"}]}],
    [{"role": "user", "content": [{"type": "input_image", "image_url": "https://example.org/unknown"}]}],
    [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}]}],
    [{"role": "user", "content": [{"type": "input_file", "file_data": "x", "filename": "f.pdf"}]}],
    [
        {"role": "user", "content": "Hi"},
        call("Rome"),
        output("sunny"),
        text("Sunny."),
        {"role": "user", "content": "?"},
    ],
    [
        {"role": "user", "content": "Hi"},
        thought("earlier"),
        text("Earlier."),
        SEARCH,
        {"role": "user", "content": "?"},
    ],
    [{"role": "user", "content": "\U0001f600 ü \u2028 \x00"}],
]


def record_items(form: TokenForm) -> list[dict[str, Any]]:
    """Return the items of a rollout with a subagent, a compacted history and a masked call."""
    ledger = Ledger()
    calls = [
        captured([1, 2, 3], [4, 5]),
        captured([50, 51], [52]),
        captured([50, 51, 52, 53], [54, 55]),
        captured([1, 2, 3, 4, 5, 6], [7]),
        captured([1, 9], [10, 11]),
    ]
    records = [CallRecord.from_capture(each, ledger.add(each)) for each in calls]
    wires = [each.to_wire(form, in_sequence=False) for each in records]
    wires[-1]["reason"] = SegmentReason.COMPACTED.value
    masked = CallRecord(call=5, masked=MaskReason.MISSING_LOGPROBS).to_wire(form)
    hidden = [{"type": "reasoning", "id": f"rs_{number}", "summary": []} for number in range(2)]
    return [
        thought("begin"),
        {**call("Rome"), RECORD_FIELD: wires[0]},
        {**hidden[0], RECORD_FIELD: wires[1]},
        output("sunny"),
        {**hidden[1], RECORD_FIELD: wires[2]},
        {**text("sunny"), RECORD_FIELD: wires[3]},
        {"role": "user", "content": "Go on."},
        {**text("from a summary"), RECORD_FIELD: wires[4]},
        {**text("without ids"), RECORD_FIELD: masked},
    ]


async def build_rows() -> list[dict[str, Any]]:
    """Return more than a hundred rows."""
    rows = [row(0, 0, 0.5, items, tools=[TOOL]) for items in LISTED]
    rows += [row(0, 0, 1, prompt=prompt, instructions="Obey.") for prompt in PROMPTS]
    rows += [row(0, 0, 1.0, record_items(form), tools=[TOOL, {"type": "web_search"}]) for form in TokenForm]
    bare = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.25]}
    odd = {"prompt_token_ids": [1], "generation_token_ids": [3, 4], "generation_log_probs": [-0.25]}
    rows += [
        row(0, 0, 1.0, [{**text("other gym"), **fields}]) for fields in (bare, odd, {RECORD_FIELD: "broken"})
    ]
    rows += [row(0, 0, 1.0, [{**text("experts"), **bare, "routed_experts": [[1, 2]]}])]
    without = row()
    del without["response"]
    rows += [
        without,
        {"reward": 1.0},
        {**row(), "response": {"output": "no list"}},
        row(instructions="Obey."),
    ]
    rows[-1]["responses_create_params"]["instructions"] = "Be exact."
    for form in ("contract", "packed", "lists"):
        rows += await token_rows(5, 2, token_fields=form)
        rows += await token_rows(
            5, 2, "drift", template=ForgetfulTemplate(), odd_share=0.5, token_fields=form
        )
    return [{**each, "_ng_task_index": number} for number, each in enumerate(rows)]
