"""The identity of episodes, and their answers."""

from __future__ import annotations

import pytest

from nemo_gym.protocol.episodes import BaseEpisodeResponse, EpisodeFailure, EpisodeId


def test_every_attempt_is_captured_under_its_own_key() -> None:
    assert EpisodeId(rollout_id="3-2").capture_key == "3-2"
    assert EpisodeId(rollout_id="3-2", attempt=1).capture_key == "3-2-a1"


def test_a_failure_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="failure kind"):
        EpisodeFailure(failure_reason="broken", failure_kind="broken")


@pytest.mark.parametrize("content", [{}, {"result": {"reward": 1}, "failure": {"failure_reason": "broken"}}])
def test_an_episode_has_either_a_result_or_a_failure(content: dict[str, object]) -> None:
    identity = {"episode_id": {"rollout_id": "r"}, "task_id": {"taskset": "s", "task_id": "t"}}
    with pytest.raises(ValueError, match="either a result or a failure"):
        BaseEpisodeResponse[dict[str, object]].model_validate({**identity, **content})
