"""A thousand random conversations on an engine whose tokens drift, and every defect that engines are known for."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from nemo_gym.mock_engine.drifting import ForgetfulTemplate, RespacingTemplate
from nemo_gym.rows.calls import fill_contract_fields, read_calls
from tests.tokens.checks import check_exact, read_as_nemo_rl
from tests.tokens.conversations import Ground, RandomPolicy, converse

KINDS: dict[str, dict[str, Any]] = {
    "steady": {},
    "steady_packed": {"token_fields": "packed"},
    "steady_lists": {"token_fields": "lists"},
    "odd_tokens": {"odd_share": 0.4},
    "odd_tokens_packed": {"odd_share": 0.4, "token_fields": "packed"},
    "forgetful": {"template": ForgetfulTemplate()},
    "forgetful_packed": {"template": ForgetfulTemplate(), "token_fields": "packed"},
    "respacing": {"template": RespacingTemplate()},
    "forgetful_and_odd": {"template": ForgetfulTemplate(), "odd_share": 0.3},
    "inline_reasoning": {"engine": {"reasoning_field": "inline"}, "odd_share": 0.2},
}
CONVERSATIONS = 100


@pytest.mark.parametrize("kind", KINDS)
async def test_rebuilt_ids_are_those_that_the_engine_recorded(kind: str) -> None:
    ground, rng = Ground(policy=RandomPolicy(), **KINDS[kind]), Random(kind)
    drifted = 0
    for number in range(CONVERSATIONS):
        talk = await converse(ground, rng, f"{kind}/{number}")
        segments = check_exact(talk.row, talk.truths)
        drifted += len(segments) > 1
        first = [token for place in segments[0].calls for token in talk.truths[place].generated_ids]
        if ground.server.config.token_fields == "contract":
            assert read_as_nemo_rl(talk.row) == first
        assert read_as_nemo_rl(fill_contract_fields(talk.row)) == first
        assert not any(record.masked for record in read_calls(talk.row))
    assert (drifted > 0) is not kind.startswith("steady")
