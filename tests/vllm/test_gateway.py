"""The segments of an opened rollout have the model's own log-probabilities, whatever its calls were."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.engines.responses_upstream import drop_our_fields
from nemo_gym.transport import Call, InMemoryTransport
from responses_api_models.vllm_model.app import VLLMModel
from tests.engines.gateway.rollouts import TOKEN, WITH_TOKEN, bearer
from tests.vllm.conftest import MODEL, VENV
from tests.vllm.test_tokens import run

TURNS = 4
PINS = {"max_tokens": 120, "temperature": 1.0}


def gateway_at(url: str, folder: Path) -> InMemoryTransport:
    before = bootstrap.current()
    bootstrap.set_current(Bootstrap("policy_model", {}, TOKEN, "cookie key", []))
    try:
        server = VLLMModel.standalone(
            name="policy_model", base_url=url, api_key="none", model=MODEL, return_token_id_information=True
        )
        server.server_client.global_config_dict = {"model_call_capture_dir": str(folder)}
        return InMemoryTransport({"http://gym": server.setup_webserver()})
    finally:
        bootstrap.set_current(before)


async def record_of_an_agent(transport: InMemoryTransport) -> dict[str, Any]:
    """Play turns of a main conversation, each after a subagent's answer, with a copy and a retry."""

    async def ask(path: str, body: Any, headers: dict[str, str], method: str = "POST") -> Any:
        reply = await transport.send("http://gym", Call(method, path, orjson.dumps(body), dict(headers)))
        assert reply.status == 200, reply.body
        return reply.json()

    rollout = await ask("/ng-rollouts", {"rollout_id": "r", "sampling": PINS}, WITH_TOKEN)
    key = bearer(rollout)
    history: list[Any] = []
    for turn in range(TURNS):
        question = [{"role": "user", "content": f"What is the weather in town {turn}?"}]
        found = await ask("/v1/responses", {"instructions": "You are a subagent.", "input": question}, key)
        said = "".join(
            part["text"] for item in found["output"] for part in item.get("content") or () if "text" in part
        )
        history.append({"role": "user", "content": f"The subagent said: {said}. Go on."})
        body = {"instructions": "You are the main agent.", "input": history}
        await ask("/v1/responses", body, key)  # a copy, which the conversation does not go on from
        answer = await ask("/v1/responses", body, key)
        await ask("/v1/responses", body, {**key, "x-stainless-retry-count": "1"})
        history += drop_our_fields(answer["output"])
    return dict(await ask("/ng-rollouts/r", None, WITH_TOKEN, "GET"))


def test_logprobs_of_the_segments_of_an_agent_are_the_models_own(
    vllm_url: str, model_folder: Path, tmp_path: Path
) -> None:
    record = run(record_of_an_agent(gateway_at(vllm_url, tmp_path / "records")))
    assert len(record["calls"]) == 3 * TURNS
    segments = record["segments"]
    trained = [call for segment in segments for call in segment["calls"]]
    assert len(trained) == len(set(trained)) > TURNS
    file = tmp_path / "segments.json"
    kept = ("token_ids", "loss_mask", "logprobs")
    file.write_text(json.dumps([{name: segment[name] for name in kept} for segment in segments]))
    script = Path(__file__).parent / "recompute.py"
    worst = float(subprocess.check_output([VENV / "bin" / "python", script, model_folder, file], text=True))
    sampled = sum(sum(segment["loss_mask"]) for segment in segments)
    sys.stdout.write(f"largest difference over {sampled} sampled tokens: {worst:.2e}\n")
    assert math.expm1(worst) < 1e-3
