"""The main job against a real vLLM: rollouts with tools, token ids, chat and native Responses, streams, overflow."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.rows.calls import read_calls
from nemo_gym.testing.serving import LoopbackServers
from nemo_gym.tokens.segments import build_segments
from responses_api_models.vllm_model.app import VLLMModel
from tests.vllm.conftest import CONTEXT, MODEL

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Oslo", "Nairobi", "Wellington"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
CONFIGS = (
    "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml,"
    "responses_api_models/vllm_model/configs/vllm_model.yaml"
)
AGENT = "example_single_tool_call_simple_agent"
TASKS = 8
STEPS = 3


def write_tasks(path: Path, **params: Any) -> Path:
    rows = (
        {
            "responses_create_params": {
                "input": f"What is the weather, question {n}?",
                "tools": [TOOL],
                **params,
            }
        }
        for n in range(TASKS)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def collect(url: str, tasks: Path, output: Path, *overrides: str) -> tuple[int, list[dict[str, Any]], str]:
    """The exit code, the rows and the printed text of an end-to-end collection."""
    block = "++policy_model.responses_api_models.vllm_model"
    command = [str(Path(sys.executable).parent / "ng_e2e_collect_rollouts"), f"+config_paths=[{CONFIGS}]"]
    command += [f"+policy_base_url={url}", "+policy_api_key=none", f"+policy_model_name={MODEL}"]
    command += [f"++{AGENT}.responses_api_agents.simple_agent.max_steps={STEPS}", "++head_server.port=0"]
    command += [f"+agent_name={AGENT}", f"+input_jsonl_fpath={tasks}", f"+output_jsonl_fpath={output}"]
    command += [f"{block}.{override}" for override in overrides]
    done = subprocess.run(command, cwd=PARENT_DIR, capture_output=True, text=True, timeout=240, check=False)
    rows = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    return done.returncode, rows, done.stdout + done.stderr


def test_tool_calling_rollouts_with_token_ids(vllm_url: str, tmp_path: Path) -> None:
    """Tool choice is forced, so that even random weights call the tool; every call has its ids."""
    tasks = write_tasks(
        tmp_path / "tasks.jsonl",
        tool_choice="required",
        parallel_tool_calls=False,
        max_output_tokens=400,
        temperature=1.0,
    )
    options = ("return_token_id_information=true", "token_fields=contract")
    code, rows, printed = collect(vllm_url, tasks, tmp_path / "out" / "rollouts.jsonl", *options)
    assert code == 0, printed
    assert len(rows) == TASKS
    for row in rows:
        assert row["_ng_end_reason"] == "max_steps"
        output = row["response"]["output"]
        calls = [item for item in output if item["type"] == "function_call"]
        assert len(calls) == STEPS
        assert all(
            json.loads(item["output"])["city"] for item in output if item["type"] == "function_call_output"
        )
        records = read_calls(row)
        assert len(records) == STEPS
        assert not [record.masked for record in records if record.masked]
        segments = build_segments(records)
        sampled = sum(segment.sampled for segment in segments)
        assert sampled == row["_ng_usage"]["output_tokens"]
        seen: list[int] = []
        for item in calls:  # those that trainers read begin with all that was seen before
            if "generation_token_ids" in item:
                assert len(item["generation_token_ids"]) == len(item["generation_log_probs"]) > 0
                assert item["prompt_token_ids"][: len(seen)] == seen
                seen = item["prompt_token_ids"] + item["generation_token_ids"]
        assert seen


@pytest.mark.parametrize("native", ["true", "false"])
def test_rollouts_over_chat_completions_and_native_responses(
    vllm_url: str, tmp_path: Path, native: str
) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl", tool_choice="auto", max_output_tokens=16)
    code, rows, printed = collect(
        vllm_url, tasks, tmp_path / "out" / "rollouts.jsonl", f"is_responses_native={native}"
    )
    assert code == 0, printed
    assert len(rows) == TASKS
    for row in rows:
        assert row["_ng_outcome"] in ("completed", "truncated")
        assert row["_ng_usage"]["output_tokens"] <= 16
        assert row["response"]["output"]


@contextmanager
def client_of(**config: Any) -> Iterator[openai.OpenAI]:
    server = VLLMModel.standalone(name="policy_model", api_key="none", model=MODEL, **config)
    with LoopbackServers() as servers:
        yield openai.OpenAI(base_url=f"{servers.serve(server)}/v1", api_key="none", max_retries=0)


@pytest.fixture(params=[False, True], ids=["chat", "native"])
def client(vllm_url: str, request: pytest.FixtureRequest) -> Iterator[openai.OpenAI]:
    with client_of(base_url=vllm_url, is_responses_native=request.param) as client:
        yield client


def test_the_openai_client_reads_responses(client: openai.OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="hello", max_output_tokens=8, temperature=0)
    assert response.usage is not None
    assert response.usage.output_tokens == 8
    assert response.status == "incomplete"


def test_the_openai_client_reads_a_stream_of_responses(client: openai.OpenAI) -> None:
    whole = client.responses.create(model=MODEL, input="hello", max_output_tokens=8, temperature=0)
    with client.responses.stream(model=MODEL, input="hello", max_output_tokens=8, temperature=0) as events:
        received = list(events)
    assert received[0].type == "response.created"
    last = received[-1]
    assert last.type == "response.incomplete"
    assert last.response.output_text == whole.output_text


def test_the_openai_client_reads_chat_completions_and_their_stream(vllm_url: str) -> None:
    messages: Any = [{"role": "user", "content": "hello"}]
    with client_of(base_url=vllm_url) as client:
        whole = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=8, temperature=0)
        stream = client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=8, temperature=0, stream=True
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text == whole.choices[0].message.content
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 8


def test_a_prompt_beyond_the_context_is_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=MODEL, input="x y z " * CONTEXT, max_output_tokens=8)
    assert caught.value.code == "context_overflow"


def test_a_budget_beyond_the_context_is_cut_to_what_is_left(vllm_url: str) -> None:
    with client_of(base_url=vllm_url) as client:
        response = client.responses.create(
            model=MODEL,
            input="hi",
            max_output_tokens=CONTEXT * 2,
            temperature=0,
            extra_body={"min_tokens": 1},
        )
    assert response.usage is not None
    assert 0 < response.usage.total_tokens <= CONTEXT


def test_a_wrong_model_name_is_found_before_collecting(vllm_url: str, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl")
    code, rows, printed = collect(vllm_url, tasks, tmp_path / "out.jsonl", "model=tinny")
    assert code == 2
    assert rows == []
    assert "tinny" in printed
    assert vllm_url in printed
    assert "Did you mean 'tiny'?" in printed
