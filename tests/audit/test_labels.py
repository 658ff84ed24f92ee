from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.audit.labels import LabelAgreement
from nemo_gym.failures import ConfigError
from tests.audit.test_rollout_signs import make_rollout


def label(right: bool | None, accepted: bool, task: int) -> dict[str, Any]:
    return make_rollout("x", question=f"Task {task}", reward=float(accepted), is_right=right)


def test_rates_and_kappa_are_those_of_the_table_of_labels() -> None:
    counts = {(True, True): 40, (True, False): 10, (False, True): 5, (False, False): 45}
    table = [pair for pair, count in counts.items() for _ in range(count)]
    agreement = LabelAgreement.read([label(*pair, task=at) for at, pair in enumerate(table)], "is_right")
    assert (agreement.false_accepts.wrong, agreement.false_accepts.probes) == (5, 50)
    assert (agreement.false_rejects.wrong, agreement.false_rejects.probes) == (10, 50)
    assert agreement.kappa is not None
    value, low, high = agreement.kappa
    assert value == pytest.approx((0.85 - 0.5) / 0.5)  # 0.85 agree; by chance 0.5 * 0.45 + 0.5 * 0.55
    assert 0.5 < low < value < high < 0.85
    assert any("kappa 0.700" in line for line in agreement.write_text())


def test_perfect_agreement_has_an_interval_below_one() -> None:
    rows = [label(at % 2 == 0, at % 2 == 0, at) for at in range(20)]
    kappa = LabelAgreement.read(rows, "is_right").kappa
    assert kappa is not None
    assert kappa[0] == kappa[2] == 1.0
    assert 0.5 < kappa[1] < 0.8


def test_copies_of_a_task_are_one_trial() -> None:
    few = LabelAgreement.read([label(False, True, 0) for _ in range(50)], "is_right")
    assert (few.false_accepts.probes, few.false_accepts.tasks) == (50, 1)
    assert few.kappa is None or few.kappa[0] <= 0


def test_labels_that_are_missing_or_no_labels_are_named() -> None:
    rows = [label(True, True, 0), label(None, True, 1)]
    assert LabelAgreement.read(rows, "is_right").unlabelled == 1
    with pytest.raises(ConfigError, match="no scored row has `other`"):
        LabelAgreement.read(rows, "other")
    with pytest.raises(ConfigError, match="`is_right` is 'maybe'"):
        LabelAgreement.read([make_rollout("x", is_right="maybe")], "is_right")
