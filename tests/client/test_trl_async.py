"""The worker's rows, queue and errors, over a gym on loopback. `tests/train` runs it with TRL's trainer."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from nemo_gym.client import Gym, GymAddress
from nemo_gym.client.trl_async import GymRolloutWorker, RowQueue, compute_advantages
from nemo_gym.failures import InputError, TransportError
from tests.client.gyms import TOKEN, gym_in_a_thread, rows
from tests.waiting import wait_until

MODULE = "trl.experimental.async_grpo.async_rollout_worker"


class Sample:
    """TRL's `RolloutSample`, which needs torch: a record of its fields."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__ |= fields


@pytest.fixture
def gym(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gym]:
    module = ModuleType(MODULE)
    module.RolloutSample = Sample  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)
    with gym_in_a_thread(with_tokens=True) as running:
        yield Gym(GymAddress(running.url, TOKEN))


def take(worker: GymRolloutWorker, count: int) -> list[Any]:
    return [worker.rollout_buffer.get(timeout=60) for _ in range(count)]


def test_advantages_are_relative_to_the_group() -> None:
    assert compute_advantages([1.0, 0.0, 1.0, 0.0], scale="none") == [0.5, -0.5, 0.5, -0.5]
    assert compute_advantages([2.0, 2.0], scale="group") == [0.0, 0.0]
    assert math.isclose(compute_advantages([1.0, 0.0], scale="group")[0], 0.5 / 0.5001)


def test_a_queue_counts_the_rows_that_were_taken() -> None:
    taken = RowQueue(4)
    taken.put_nowait(1)
    taken.put_nowait(2)
    taken.get_nowait()
    assert (taken.taken, taken.qsize()) == (1, 1)


def test_groups_come_in_rounds_and_are_consumed_when_their_rows_are_taken(gym: Gym) -> None:
    worker = GymRolloutWorker(gym, rows(2), group_size=2, groups_per_step=2, max_staleness=4)
    worker.update_model_version(1)
    worker.start()
    try:
        found = take(worker, 12)
        by_group: dict[int, list[Any]] = {}
        for row in found:
            by_group.setdefault(row.group_id, []).append(row)
        assert len(by_group) >= 3
        for row in found:
            assert len(row.input_ids) == len(row.completion_mask) == len(row.old_log_probs)
            assert row.completion_mask.sum() > 0
            assert not row.old_log_probs[row.completion_mask == 0].any()
            assert row.model_version >= 1
        worker.update_model_version(2)
        wait_until(lambda: not worker._queued or worker._queued[0].end > worker.rollout_buffer.taken)
        assert worker.metrics_queue.get_nowait().keys() == {"gym/staleness", "gym/failed_rollouts"}
        worker.check_health(60)
        assert worker.state()["version"] == 2
    finally:
        worker.stop()


def test_a_full_queue_does_not_keep_the_worker_from_stopping(gym: Gym) -> None:
    worker = GymRolloutWorker(gym, rows(2), group_size=2, queue_size=1)
    worker.start()
    wait_until(worker.rollout_buffer.full)
    worker.stop()


def test_a_failure_of_the_session_is_the_trainers(gym: Gym) -> None:
    worker = GymRolloutWorker(gym, [{}], group_size=2)
    worker.start()
    wait_until(lambda: worker._failure is not None)
    with pytest.raises(InputError, match="responses_create_params is missing"):
        worker.check_health(60)
    worker.update_model_version(3)
    worker.stop()


def test_a_worker_that_produces_nothing_is_not_healthy(gym: Gym) -> None:
    worker = GymRolloutWorker(gym, rows(1))
    time.sleep(0.01)
    with pytest.raises(TransportError, match="no group has come"):
        worker.check_health(0.001)
    assert worker.state() == {}


def test_rows_above_the_token_budget_are_counted(gym: Gym) -> None:
    worker = GymRolloutWorker(gym, rows(1), group_size=1, token_budget=1)
    worker.start()
    try:
        assert worker.metrics_queue.get(timeout=60) == {"gym/rows_over_token_budget": 1.0}
    finally:
        worker.stop()
    assert worker.rollout_buffer.empty()
