"""The benchmark of nodes of Ray."""

from __future__ import annotations

import importlib.util

import pytest

from nemo_gym.failures import ConfigError
from perf.ray_nodes import BenchKeys, run


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed here")
def test_it_needs_ray() -> None:
    with pytest.raises(ConfigError, match="this interpreter has no Ray"):
        run(1, BenchKeys(nodes=[1]))


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_a_few_attempts_are_made_on_a_node_of_ray() -> None:
    figures = run(1, BenchKeys(nodes=[1], in_flight=2, latency_s=0.05, seconds=0.2))
    assert list(figures) == ["process", "1 node"]
    measured = figures["1 node"]
    assert measured["failed"] == 0
    for name in ("rollouts_per_s", "gym_cpu_ms", "ready_s", "ray_s"):
        assert measured[name] > 0
    assert measured["ray_cpu_ms"] >= 0, "Ray may have nothing to do in such a short measurement"
    assert measured["of_linear"] == 1.0
