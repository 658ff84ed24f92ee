"""Model calls within a budget: counted in every API, refused without anything left."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from starlette.responses import JSONResponse

from nemo_gym.engines.gateway.budgets import answer_within_budget
from nemo_gym.failures import EngineError
from nemo_gym.transport.budget import BudgetLedger, Tokens
from nemo_gym.transport.memory import collect_reply
from nemo_gym.transport.request_body import WholeBody

USAGES = [
    (
        "/v1/responses",
        {"input_tokens": 30, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 20}},
        Tokens(1, 30, 20, 5),
    ),
    (
        "/v1/chat/completions",
        {"prompt_tokens": 30, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8}},
        Tokens(1, 30, 8, 5),
    ),
    (
        "/v1/messages",
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 15,
            "cache_creation_input_tokens": 5,
            "output_tokens": 5,
        },
        Tokens(1, 30, 15, 5),
    ),
    ("/v1/responses", None, Tokens(1)),
]


async def call(ledger: BudgetLedger, path: str, answer: dict[str, Any]) -> Any:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse(answer)(scope, receive, send)

    async def layer(scope: Any, receive: Any, send: Any) -> None:
        await answer_within_budget(ledger, "policy_model", handler, scope, receive, send)

    async def wait() -> Any:
        raise AssertionError("the body is whole")

    scope = {"type": "http", "method": "POST", "path": path, "headers": []}
    return orjson.loads((await collect_reply(layer, scope, WholeBody(b"{}", wait))).body)


@pytest.mark.parametrize(("path", "usage", "tokens"), USAGES)
async def test_the_tokens_of_every_api_are_counted(path: str, usage: Any, tokens: Tokens) -> None:
    ledger = BudgetLedger(tokens=100)
    answer = {"id": "a", "usage": usage}
    assert await call(ledger, path, answer) == answer
    assert ledger.spent == {"policy_model": tokens}


async def test_a_call_is_refused_when_nothing_is_left_and_other_routes_are_not() -> None:
    ledger = BudgetLedger(tokens=0)
    with pytest.raises(EngineError, match="the tokens of the rollout's budget are spent"):
        await call(ledger, "/v1/responses", {})
    assert await call(ledger, "/v1/models", {"data": []}) == {"data": []}
    assert ledger.spent == {}


async def test_a_call_that_another_model_server_has_counted_is_not_counted_twice() -> None:
    ledger = BudgetLedger(spent={"behind": Tokens(1, 3, 0, 4)})
    await call(ledger, "/v1/responses", {"usage": {"input_tokens": 3, "output_tokens": 4}})
    assert ledger.spent == {"behind": Tokens(1, 3, 0, 4)}
