"""The projection is arithmetic on kept figures, and names the process that is full first."""

from __future__ import annotations

from typing import Any

import pytest

from perf.page import projection_table
from perf.projection import ALL_CORES, COLLECTOR, project
from perf.results import read

COLLECTED: dict[str, Any] = {"over HTTP": {"rows_per_cpu_s": 10_000.0}}


def rollouts(**cpu_ms: float) -> dict[str, Any]:
    return {"process": {"tool-calling": {"64 in flight, engine 0 s": {"cpu_ms_of": cpu_ms}}}}


def test_the_slowest_single_process_is_the_first_bottleneck() -> None:
    one, many = project(rollouts(agent=0.5, model=0.4, head=0.0), COLLECTED, [16])
    assert (one.bottleneck, one.rollouts_per_s) == ("agent, as one process", 2_000)
    assert one.cores_of == pytest.approx({"agent": 1.0, "model": 0.8, "collector": 0.2})
    assert (many.bottleneck, many.rollouts_per_s) == (COLLECTOR, 10_000)


def test_few_cores_are_full_before_the_collector() -> None:
    _, many = project(rollouts(agent=0.5, model=0.4), COLLECTED, [4])
    assert (many.bottleneck, many.rollouts_per_s) == (ALL_CORES, 4_000)
    assert sum(many.cores_of.values()) == pytest.approx(4)


def test_the_page_has_the_projection_of_the_last_results() -> None:
    table = projection_table({"rollouts": read("rollouts"), "collector": read("collector")})
    assert table.count("| 16 |") == table.count("| 64 |") == 2
    assert "No result" in projection_table({"rollouts": [], "collector": []})
