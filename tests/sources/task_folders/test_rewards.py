"""The reward files of a verifier, and the rewards of steps."""

from __future__ import annotations

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.sources.task_folders.rewards import (
    combine_rewards,
    find_main_reward,
    find_shortfall,
    parse_rewards,
)
from nemo_gym.sources.task_folders.settings import RewardStrategy


@pytest.mark.parametrize(
    ("in_json", "in_text", "rewards"),
    [
        (None, b" 1.5\n", {"reward": 1.5}),
        (b'{"a": true, "b": -2}', b"9", {"a": 1.0, "b": -2.0}),
        (b"{}", None, {}),
    ],
)
def test_the_object_wins_over_the_text(
    in_json: bytes | None, in_text: bytes | None, rewards: dict[str, float]
) -> None:
    assert parse_rewards(in_json, in_text) == rewards


@pytest.mark.parametrize(
    ("in_json", "in_text", "code"),
    [
        (None, None, "no_reward_file"),
        (None, b"", "empty_reward_file"),
        (b"", b"1", "empty_reward_file"),
        (None, b"nan", "bad_reward"),
        (None, b"one", "bad_reward"),
        (None, b"\xff", "bad_reward"),
        (b"[1]", None, "bad_reward"),
        (b"1", None, "bad_reward"),
        (b'{"reward": null}', None, "bad_reward"),
        (b'{"reward": 1e999}', None, "bad_reward"),
        (b'{"reward": 1' + b"0" * 400 + b"}", None, "bad_reward"),
    ],
)
def test_what_is_no_finite_number_is_a_failure(
    in_json: bytes | None, in_text: bytes | None, code: str
) -> None:
    with pytest.raises(VerifierError) as raised:
        parse_rewards(in_json, in_text)
    assert raised.value.failure.code == code


def test_the_reward_that_counts_is_named_or_the_only_one() -> None:
    assert find_main_reward({"reward": 1, "style": 0}) == 1
    assert find_main_reward({"score": 0.5}) == 0.5
    assert find_main_reward({"a": 1, "b": 2}, "b") == 2
    with pytest.raises(VerifierError, match="the rewards are: a, b"):
        find_main_reward({"a": 1, "b": 2})


def test_steps_have_their_mean_or_the_last_and_a_missing_name_is_zero() -> None:
    steps = [{"a": 1.0}, None, {"a": 0.5, "b": 1.0}]
    assert combine_rewards(steps, None) == {"a": 0.75, "b": 0.5}
    assert combine_rewards(steps, RewardStrategy.FINAL) == {"a": 0.5, "b": 1.0}
    assert combine_rewards([{"a": 1.0}, None], RewardStrategy.FINAL) is None
    assert combine_rewards([None], None) is None


def test_a_threshold_needs_its_reward() -> None:
    assert find_shortfall({"reward": 0.5}, 0.5) is None
    assert find_shortfall({"reward": 0.5}, {"style": 0.1}) == "style is -inf, below min_reward 0.1"
    assert find_shortfall(None, 0) is not None
    assert find_shortfall(None, None) is None
