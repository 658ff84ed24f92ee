"""Ids travel once, and so does text but to the engine: rows and requests of our own grow with the turns."""

from __future__ import annotations

from perf.tokens import FORMS, measure

TURNS = 100
MOST_ROW_MB, MOST_REQUESTS_MB = 2, 25
"""What a rollout of so many turns of 1,000 tokens may come to, the requests of all hops together."""


async def test_a_packed_row_grows_with_its_turns_and_no_faster() -> None:
    short, long = [await measure(turns, FORMS["packed"]) for turns in (10, 30)]
    assert (short["segments"], long["segments"]) == (1, 1)
    assert long["tokens"] / short["tokens"] > 3
    assert long["row_mb"] / short["row_mb"] < long["tokens"] / short["tokens"]
    assert long["row_mb"] / 30 * TURNS < MOST_ROW_MB
    check_requests(short, long)


def check_requests(short: dict[str, float], long: dict[str, float]) -> None:
    """Text goes to the engine with every turn, as its API has it, and nowhere else."""
    for hop in ("requests_to_model_server_mb", "requests_to_environment_mb"):
        assert long[hop] < 3.3 * short[hop], hop
    to_engine = long["requests_to_engine_mb"] * (TURNS * (TURNS + 1)) / (30 * 31)
    others = (long["requests_mb"] - long["requests_to_engine_mb"]) / 30 * TURNS
    assert to_engine + others < MOST_REQUESTS_MB


async def test_the_contracts_fields_repeat_every_prompt() -> None:
    packed, contract = [await measure(10, FORMS[form]) for form in ("packed", "contract")]
    assert contract["row_mb"] > 3 * packed["row_mb"]
    assert contract["tokens"] == packed["tokens"]


async def test_history_is_text_only() -> None:
    without, packed, contract = [await measure(10, FORMS[form]) for form in ("no ids", "packed", "contract")]
    for with_ids in (packed, contract):
        assert with_ids["requests_to_model_server_mb"] == without["requests_to_model_server_mb"]
        # What asks for ids, and pins the sampling, on each of ten calls.
        assert with_ids["requests_to_engine_mb"] < without["requests_to_engine_mb"] + 10 * 250 / 1e6
