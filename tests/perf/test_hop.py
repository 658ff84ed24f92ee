"""The benchmark of one hop: the floor, and a long answer through a model server."""

from __future__ import annotations

import orjson
import pytest

from perf.floor import IN_FLIGHT, bare_app, measure_hop, served
from perf.hop import (
    IDS,
    SIZES,
    calls_at_once,
    json_of,
    long_answer,
    through_a_model_server,
    through_the_gateway,
)


@pytest.mark.parametrize("size", SIZES)
def test_bodies_have_about_the_size_that_they_are_called_by(size: str) -> None:
    assert len(json_of(SIZES[size])) == pytest.approx(SIZES[size], rel=0.15)


def test_the_long_answer_is_two_megabytes_with_data_of_every_token() -> None:
    assert len(long_answer()) == pytest.approx(2_000_000, rel=0.05)
    message = orjson.loads(long_answer())["choices"][0]["message"]
    assert len(message["generation_token_ids"]) == len(message["generation_log_probs"]) == IDS


def test_a_hop_through_the_bare_app_has_a_rate_and_costs_both_sides() -> None:
    with served(lambda: bare_app) as peer:
        hop = measure_hop(peer, "/", b"x" * 1_000)
    assert hop.requests_per_s > 100
    assert hop.server_cpu_ms > 0
    assert hop.client_cpu_ms > 0


def test_an_answer_of_the_wrong_size_is_no_figure() -> None:
    with served(lambda: bare_app) as peer, pytest.raises(ExceptionGroup) as caught:
        measure_hop(peer, "/", b"x" * 10, answer_bytes=11)
    assert caught.group_contains(RuntimeError, match="10 bytes")


def test_a_long_answer_passes_a_model_server() -> None:
    figures = through_a_model_server(requests=IN_FLIGHT)
    assert figures["ids recorded, packed"]["server_cpu_ms"] > figures["ids not asked for"]["server_cpu_ms"]
    assert figures["parsed and dumped once"]["server_cpu_ms"] > 1


def test_calls_of_an_opened_rollout_have_a_figure_of_their_own() -> None:
    figures = through_the_gateway(turns=5)
    assert figures["no rollout"]["server_cpu_ms"] > 0
    assert "more_cpu_ms" in figures["opened rollout"]


def test_rollouts_call_the_gateway_at_once() -> None:
    figures = calls_at_once(3, answer_takes_s=0.2)
    assert 1 <= figures["peak_in_flight"] <= 3
    assert figures["server_cpu_ms"] > 0
