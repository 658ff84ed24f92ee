from __future__ import annotations

from nemo_gym.engines.gateway.noting import noted_call, noting


def test_a_call_is_noted_within_its_block_only() -> None:
    assert noted_call() is None
    with noting() as call:
        assert noted_call() is call
    assert noted_call() is None
