from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.client._group import RolloutGroup, StalenessPolicy, read_group


def group(*versions: tuple[int, int], **line: Any) -> RolloutGroup:
    members = [
        {"_ng_task_index": 4, "_ng_rollout_index": n, "reward": float(n)} for n in range(len(versions))
    ]
    about = {"cursor": 7, "key": "a", "round": 1, "number": 4, "failed": [], "metric": None, "withheld": []}
    return read_group({**about, "members": members, "member_versions": versions, **line})


def test_a_group_tells_of_itself() -> None:
    found = group((1, 2), (2, 3), mask_below=2)
    assert (found.key, found.round, found.number, found.cursor) == ("a", 1, 4, 7)
    assert (found.oldest, found.rewards, found.mask_below) == (1, [0.0, 1.0], 2)
    assert found.cancelled is None
    cancelled = read_group({"cancelled": "stale", "spent": {"tokens": 3}, "key": "a"})
    assert (cancelled.cancelled, cancelled.spent, cancelled.rollouts) == ("stale", {"tokens": 3}, ())


@pytest.mark.parametrize(
    ("policy", "version", "kept"),
    [
        (StalenessPolicy(), 9, (0, 1)),
        (StalenessPolicy(1, "group", "drop"), 2, (0, 1)),
        (StalenessPolicy(1, "group", "drop"), 3, None),
        (StalenessPolicy(1, "group", "wait"), 3, None),
        (StalenessPolicy(1, "rollout", "drop", 1), 3, (1,)),
        (StalenessPolicy(1, "rollout", "drop", 2), 3, None),
        (StalenessPolicy(1, "token", "mask"), 3, (0, 1)),
        (StalenessPolicy(1, "token", "mask"), 9, None),
        (StalenessPolicy(1, "rollout", "withhold"), 3, (0, 1)),
        (StalenessPolicy(1, "rollout", "withhold"), 9, None),
    ],
)
def test_a_group_that_has_waited_is_judged_again(
    policy: StalenessPolicy, version: int, kept: tuple[int, ...] | None
) -> None:
    cut = group((1, 2), (2, 3)).cut_stale(policy, version)
    assert (cut and tuple(rollout.repeat for rollout in cut.rollouts)) == kept


def test_masks_and_withheld_rollouts_of_a_group_that_has_waited() -> None:
    waited = group((1, 2), (2, 3))
    masked = waited.cut_stale(StalenessPolicy(1), 3)
    assert masked is not None
    assert masked.mask_below == 2
    withheld = waited.cut_stale(StalenessPolicy(1, "rollout", "withhold"), 3)
    assert withheld is not None
    assert [withheld.is_trained(rollout) for rollout in withheld.rollouts] == [False, True]
