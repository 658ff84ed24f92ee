"""The size of rows and requests by the number of turns: token ids are sent and stored once."""

from __future__ import annotations

from perf.tokens import FORMS, measure

TURNS = 100
MOST_ROW_MB, MOST_REQUESTS_MB = 2, 50
"""Limits for a rollout of `TURNS` turns of 1,000 tokens: one row, and the requests of all hops together."""


async def test_a_packed_row_grows_with_its_turns_and_no_faster() -> None:
    short, long = [await measure(turns, FORMS["packed"]) for turns in (10, 30)]
    assert (short["segments"], long["segments"]) == (1, 1)
    assert long["tokens"] / short["tokens"] > 3
    assert long["row_mb"] / short["row_mb"] < long["tokens"] / short["tokens"]
    assert long["row_mb"] / 30 * TURNS < MOST_ROW_MB
    check_requests(short, long)


def check_requests(short: dict[str, float], long: dict[str, float]) -> None:
    """The history's text is sent to the model server and the engine on every turn, and not to the environment."""
    assert long["requests_to_environment_mb"] < 3.3 * short["requests_to_environment_mb"]
    with_history = long["requests_to_engine_mb"] + long["requests_to_model_server_mb"]
    growth = (TURNS * (TURNS + 1)) / (30 * 31)
    others = (long["requests_mb"] - with_history) / 30 * TURNS
    assert with_history * growth + others < MOST_REQUESTS_MB


async def test_the_contracts_fields_repeat_every_prompt() -> None:
    packed, contract = [await measure(10, FORMS[form]) for form in ("packed", "contract")]
    assert contract["row_mb"] > 3 * packed["row_mb"]
    assert contract["tokens"] == packed["tokens"]


async def test_history_is_text_only() -> None:
    without, packed, contract = [await measure(10, FORMS[form]) for form in ("no ids", "packed", "contract")]
    for with_ids in (packed, contract):
        assert with_ids["requests_to_model_server_mb"] == without["requests_to_model_server_mb"]
        # The fields that request ids and pin the sampling, on each of ten calls.
        assert with_ids["requests_to_engine_mb"] < without["requests_to_engine_mb"] + 10 * 250 / 1e6
