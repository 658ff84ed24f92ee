"""Exact tokens from a real vLLM: complete ids, segments whose log-probabilities are the model's own, exact prompts."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.engines.policy import PolicyUpdate
from nemo_gym.engines.responses_upstream import drop_our_fields
from nemo_gym.rows.calls import convert_for_trainers, read_calls
from nemo_gym.tokens.records import CallRecord
from nemo_gym.tokens.segments import Segment, build_segments
from nemo_gym.transport.context import RequestContext, current_context
from nemo_gym.transport.pools import process_transport
from responses_api_models.vllm_model.app import VLLMModel
from tests.tokens.checks import read_as_nemo_rl
from tests.vllm.conftest import CONTEXT, MODEL, VENV
from tests.vllm.test_vllm import TOOL

TURNS = 4


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def and_close() -> Any:
        try:
            return await work
        finally:
            await process_transport().close()

    return asyncio.run(and_close())


def server_at(url: str, **options: Any) -> VLLMModel:
    server = VLLMModel.standalone(
        base_url=url, api_key="none", model=MODEL, return_token_id_information=True, **options
    )
    assert isinstance(server, VLLMModel)
    return server


async def roll_out(server: VLLMModel, session: str, **params: Any) -> dict[str, Any]:
    """A conversation with a tool, as the row of an agent that keeps everything."""
    history: list[Any] = [{"role": "user", "content": f"What is the weather, question {session}?"}]
    output: list[Any] = []
    current_context.set(RequestContext(session))
    for _ in range(TURNS):
        asked = {"input": history, "tools": [TOOL], "parallel_tool_calls": False, "max_output_tokens": 300}
        response = await server.respond({**asked, **params})
        output += response["output"]
        history = [*history, *drop_our_fields(response["output"])]
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        answers = [
            {"type": "function_call_output", "call_id": call["call_id"], "output": "Rain."} for call in calls
        ]
        output += answers
        history += answers or [{"role": "user", "content": "Go on."}]
    return {"response": {"output": output}}


async def roll_out_many(server: VLLMModel, **params: Any) -> list[dict[str, Any]]:
    return [await roll_out(server, str(number), **params) for number in range(4)]


def calls_in(rows: list[dict[str, Any]]) -> list[CallRecord]:
    return [record for row in rows for record in read_calls(row)]


def segments_in(rows: list[dict[str, Any]]) -> list[Segment]:
    return [segment for row in rows for segment in build_segments(read_calls(row))]


def test_a_real_engine_is_found_trainable(vllm_url: str) -> None:
    async def twice() -> Any:
        server = server_at(vllm_url)
        for _ in range(20):  # the first answers of a cold engine can take longer than a preflight waits
            found = (await server.preflight())["training"]
            if found["probed"] and found["token_input"] != "none":
                break
        return found

    found = run(twice())
    assert found["trainable"]
    assert found["logprobs_mode"] == "raw"
    assert found["token_input"] == "generate"
    assert found["context_length"] == CONTEXT


@pytest.mark.parametrize("exact_prompts", [False, True])
def test_logprobs_of_the_segments_are_the_models_own(
    vllm_url: str, model_folder: Path, tmp_path: Path, exact_prompts: bool
) -> None:
    """Without a forced tool call: its grammar takes part in the log-probabilities, and in no model's own."""
    server = server_at(vllm_url, exact_prompts=exact_prompts)
    rows = run(roll_out_many(server))
    assert not any(record.masked for record in calls_in(rows))
    for row in rows:
        assert read_as_nemo_rl(convert_for_trainers(row))
    segments = segments_in(rows)
    assert sum(segment.sampled for segment in segments) > 0
    file = tmp_path / "segments.json"
    file.write_text(
        json.dumps(
            [{"token_ids": s.token_ids, "loss_mask": s.loss_mask, "logprobs": s.logprobs} for s in segments]
        )
    )
    script = Path(__file__).parent / "recompute.py"
    worst = float(subprocess.check_output([VENV / "bin" / "python", script, model_folder, file], text=True))
    sys.stdout.write(
        f"largest difference {worst:.2e}, importance ratios within {math.expm1(worst):.2e} of 1\n"
    )
    assert math.expm1(worst) < 1e-3


def test_exact_prompts_leave_fewer_segments(vllm_url: str) -> None:
    rows = run(roll_out_many(server_at(vllm_url, exact_prompts=False), tool_choice="required"))
    rendered, exact_rows = (
        len(segments_in(rows)),
        run(roll_out_many(server_at(vllm_url), tool_choice="required")),
    )
    exact = len(segments_in(exact_rows))
    sys.stdout.write(f"segments of {len(calls_in(exact_rows))} calls: {rendered} rendered, {exact} exact\n")
    assert exact < rendered


def test_weights_are_reloaded_with_a_new_version(vllm_url: str) -> None:
    server = server_at(vllm_url)
    answer = run(server.update_policy(PolicyUpdate(version=3, reload_weights=True)))
    assert answer["version"] == 3
    row = run(roll_out(server, "after"))
    assert {record.policy_version for record in read_calls(row)} == {3}


def test_reloading_drops_what_the_old_weights_cached(vllm_url: str) -> None:
    server = server_at(vllm_url)
    prompt = {"input": "Sun and rain. " * 200, "max_output_tokens": 1}
    hits = [prefix_hits(vllm_url)]
    for reload_weights in (False, False, True):
        update = PolicyUpdate(version=4, reload_weights=reload_weights)
        run(server.update_policy(update))
        run(server.respond(prompt))
        hits.append(prefix_hits(vllm_url))
    assert hits[2] > hits[1], "the prefix is cached"
    assert hits[3] == hits[2], "and it is no more"


def prefix_hits(vllm_url: str) -> float:
    """Tokens that the engine has found in its prefix cache so far."""
    with urllib.request.urlopen(f"{vllm_url.removesuffix('/v1')}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllm:prefix_cache_hits_total")
    )
