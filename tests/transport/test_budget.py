"""The ledger of an attempt: what is left, what was spent, and the headers that carry both."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from nemo_gym.clock import replaced_by
from nemo_gym.failures import EngineError, InputError
from nemo_gym.transport.budget import BudgetLedger, Price, Tokens, compute_cost, read_spent, write_spent
from tests.rollouts.doubles import run_virtually
from tests.transport.test_deadline import LoopClock

PRICES = {"policy": Price(1.0, 0.1, 4.0), "judge": Price(10.0, 10.0, 40.0)}


def test_cached_tokens_have_a_price_of_their_own() -> None:
    spent = {"policy": Tokens(2, 1_000_000, 400_000, 100_000), "judge": Tokens(1, 100, 0, 10)}
    assert compute_cost(spent, PRICES) == pytest.approx(0.6 + 0.04 + 0.4 + 0.0014)
    assert compute_cost({"unknown": Tokens(1, 5, 0, 5)}, PRICES) == 0.0


def test_what_is_left_decreases_with_the_calls_of_every_server() -> None:
    ledger = BudgetLedger(tokens=100, cost=1.0, prices=PRICES)
    ledger.note("policy", Tokens(1, 30, 0, 10))
    ledger.note_headers({"x-ng-spent": write_spent({"judge": Tokens(1, 5, 0, 5)}).decode()})
    ledger.note_headers({"content-type": "application/json"})
    left = orjson.loads(ledger.to_header())
    assert left["tokens"] == 50
    assert left["cost"] == pytest.approx(1.0 - ledger.compute_cost())
    again = BudgetLedger.from_header(ledger.to_header())
    assert (again.tokens, again.prices, again.spent) == (50, PRICES, {})
    assert read_spent(ledger.write_spent()) == ledger.spent == read_spent(orjson.loads(ledger.write_spent()))


@pytest.mark.parametrize(
    ("ledger", "limit"),
    [
        (BudgetLedger(tokens=40), "tokens"),
        (BudgetLedger(cost=50e-6, prices={"policy": Price(1.0, 1.0, 2.0)}), "cost"),
        (BudgetLedger(tokens=41), None),
        (BudgetLedger(), None),
    ],
)
def test_a_call_is_refused_when_a_limit_is_reached(ledger: BudgetLedger, limit: str | None) -> None:
    ledger.note("policy", Tokens(1, 30, 0, 10))
    assert ledger.find_exhausted() == limit
    if limit is None:
        ledger.require_left("policy")
        return
    with pytest.raises(EngineError, match="budget") as refused:
        ledger.require_left("policy")
    failure = refused.value.failure
    assert (failure.code, failure.http_status, failure.retryable) == ("budget_spent", 402, False)
    ledger.lift()
    ledger.require_left("policy")


def test_seconds_are_those_on_the_clock_of_rollouts() -> None:
    async def main() -> None:
        ledger = BudgetLedger.from_header('{"seconds": 10.0}')
        await asyncio.sleep(9.0)
        assert ledger.find_exhausted() is None
        assert orjson.loads(ledger.to_header())["seconds"] == pytest.approx(1.0)
        await asyncio.sleep(1.0)
        assert ledger.find_exhausted() == "seconds"

    with replaced_by(LoopClock()):
        run_virtually(main())


@pytest.mark.parametrize(
    "value", ["", "7", '{"tokens": "many"}', '{"prices": [1]}', '{"prices": {"a": [1]}}']
)
def test_a_header_of_another_form_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="x-ng-budget is not a budget"):
        BudgetLedger.from_header(value)


@pytest.mark.parametrize(
    "value", [None, "", "[]", '{"policy": 1}', '{"policy": [1, 2]}', {"policy": ["a"] * 4}]
)
def test_expenses_of_another_form_are_none(value: object) -> None:
    assert read_spent(value) == {}
