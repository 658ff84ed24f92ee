"""What was sampled with, and when raw log-probabilities are the policy's own."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.engines.tokens.training_requests import PINNED, distortions, read_sampling
from nemo_gym.failures import InputError
from tests.engines.upstreams import engine_of, vllm_over


@pytest.mark.parametrize(
    "body",
    [
        {},
        PINNED,
        {"temperature": 1},
        {"top_k": 0},
        {"presence_penalty": 0.0, "frequency_penalty": 0},
        {"tool_choice": "required"},
        {"response_format": {"type": "json_object"}},
        {"seed": 3, "max_completion_tokens": 5, "stop": ["x"]},
    ],
)
def test_what_leaves_the_distribution_alone(body: dict[str, Any]) -> None:
    assert distortions(body) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.7),
        ("temperature", 0),
        ("top_p", 0.95),
        ("top_k", 20),
        ("min_p", 0.1),
        ("repetition_penalty", 1.1),
        ("presence_penalty", 1),
        ("logit_bias", {"5": 1}),
        ("bad_words", ["x"]),
        ("allowed_token_ids", [1]),
    ],
)
def test_what_changes_the_distribution(name: str, value: Any) -> None:
    assert distortions({**PINNED, name: value}) == [name]


def test_a_record_keeps_sampling_and_of_a_grammar_that_there_is_one() -> None:
    plain = {**PINNED, "messages": [], "seed": 3, "stop": None, "tool_choice": "auto"}
    assert read_sampling(plain) == {**PINNED, "seed": 3}
    schema = {"type": "json_schema", "json_schema": {"schema": {"enum": ["x"] * 1000}}}
    assert read_sampling({**plain, "response_format": schema}) == {**PINNED, "seed": 3, "grammar": True}
    assert read_sampling({**plain, "tool_choice": "required"})["grammar"] is True
    assert "grammar" not in read_sampling({**plain, "response_format": {"type": "text"}})


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ('{"include_reasoning": false}', "include_reasoning"),
        ('{"truncate_prompt_tokens": 9}', "truncate_prompt_tokens"),
    ],
)
async def test_what_would_make_ids_wrong_is_refused(extra: str, param: str) -> None:
    params = {"input": "hello", "metadata": {"extra_body": extra}}
    with pytest.raises(InputError) as raised:
        await vllm_over(engine_of(), return_token_id_information=True).respond(params)
    assert raised.value.failure.param == param
    assert (await vllm_over(engine_of()).respond(params))["status"] == "completed"
