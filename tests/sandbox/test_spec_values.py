"""Values of a specification that follow from others."""

from __future__ import annotations

import pytest

from nemo_gym.sandbox.utils import CPU_CAP_ENV_VARS, cpu_cap_env, rewrite_image


@pytest.mark.parametrize(("cpu", "cores"), [(4, "4"), (3.9, "3"), (0.5, "1")])
def test_libraries_use_the_whole_cores_of_the_limit(cpu: float, cores: str) -> None:
    assert cpu_cap_env(cpu) == dict.fromkeys(CPU_CAP_ENV_VARS, cores)
    assert {"OMP_NUM_THREADS", "GOMAXPROCS", "CARGO_BUILD_JOBS"} <= set(CPU_CAP_ENV_VARS)


def test_without_a_limit_nothing_is_set() -> None:
    assert cpu_cap_env(None) == {}


def test_the_first_matching_prefix_of_an_image_is_replaced() -> None:
    rewrites = [{"from": "docker.io/", "to": "mirror/"}, {"from": "mirror/", "to": "other/"}]
    assert rewrite_image("docker.io/a:1", rewrites) == "mirror/a:1"
    assert rewrite_image("quay.io/a:1", rewrites) == "quay.io/a:1"
    assert rewrite_image(None, rewrites) is None
