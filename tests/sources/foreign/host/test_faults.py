"""The errors that a host answers."""

from __future__ import annotations

import pytest

from nemo_gym.sources.foreign.host.faults import HostError, TimeIsUp, check_reward, describe_error


class Tensor:
    def __float__(self) -> float:
        return 0.5


@pytest.mark.parametrize(("value", "reward"), [(1, 1.0), (0.25, 0.25), (True, 1.0), (Tensor(), 0.5)])
def test_numbers_are_rewards(value: object, reward: float) -> None:
    assert check_reward(value, "seat 0") == reward


@pytest.mark.parametrize("value", ["0.5", None, float("nan"), float("-inf"), [1.0], b"1"])
def test_nothing_else_is_a_reward(value: object) -> None:
    with pytest.raises(HostError) as caught:
        check_reward(value, "seat 0")
    assert caught.value.code == "bad_reward"


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (HostError("not_found", "no game"), "not_found", False),
        (TimeIsUp(), "timeout", True),
        (MemoryError(), "out_of_resources", True),
        (ValueError("a bug"), "environment_error", True),
        (SystemExit(3), "environment_error", True),
    ],
)
def test_an_error_has_a_code_and_its_place(error: BaseException, code: str, retryable: bool) -> None:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - also those that are no `Exception`
        told = describe_error(caught)
    assert (told["code"], told["retryable"]) == (code, retryable)
    assert told["where"].rpartition(":")[0] == __file__
    assert len(told["traceback"]) <= 8 << 10
