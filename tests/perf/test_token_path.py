"""The price of a turn with ids: every stage has a figure, and ids cost what their bytes make them cost."""

from __future__ import annotations

import orjson
import pytest

from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from perf.token_path import FORMS, READ, SAMPLED, TokenPath, pass_sockets, prepare_answers, price


def test_every_prompt_begins_with_all_ids_before_it() -> None:
    answers = [orjson.loads(body) for body in prepare_answers(3)]
    seen: list[int] = []
    for answer in answers:
        prompt = answer["prompt_token_ids"]
        assert prompt[: len(seen)] == seen
        seen = prompt + answer["choices"][0]["token_ids"]
    assert len(seen) == 3 * (SAMPLED + READ)


@pytest.mark.parametrize("form", ["packed", "contract"])
def test_the_rollout_is_one_segment_of_all_tokens(form: str) -> None:
    row = orjson.loads(TokenPath(4, FORMS[form]).play())
    (segment,) = build_segments(read_calls(row))
    assert (len(segment.token_ids), segment.sampled) == (4 * (SAMPLED + READ), 4 * SAMPLED)


@pytest.mark.parametrize("form", list(FORMS))
def test_every_stage_has_a_price(form: str) -> None:
    figures = price(8, FORMS[form])
    stages = ("model_server", "agent_and_row", "tool", "verify", "session", "collector", "export")
    assert all(figures[f"{stage}_ms"] >= 0 for stage in stages)
    assert figures["cpu_ms"] == pytest.approx(sum(figures[f"{stage}_ms"] for stage in stages))
    assert figures["floor_ms"] > 0
    assert figures["instructions"] > 1_000


@pytest.mark.parametrize("form", ["packed", "contract"])
def test_instructions_of_a_turn_do_not_grow_with_the_ids_before_it(form: str) -> None:
    """Texts are converted again in every turn, as without ids; the ids that are known already take no instruction."""
    few, many = (price(turns, FORMS[form])["instructions"] for turns in (5, 25))
    without = [price(turns, FORMS["no ids"])["instructions"] for turns in (5, 25)]
    assert many - few < 2 * (without[1] - without[0])


def test_bodies_of_any_size_pass_the_sockets() -> None:
    for size in (0, 1, 300_000):
        assert pass_sockets(b"x" * size) == b"x" * size
