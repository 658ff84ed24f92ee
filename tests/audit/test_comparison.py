from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.audit.card import build_card
from nemo_gym.audit.comparison import list_failures, read_baseline
from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right
from nemo_gym.failures import ConfigError


def make_outcomes(wrong: int) -> list[ProbeOutcome]:
    findings = [Conclusion.FALSE_ACCEPT] * wrong + [Conclusion.RIGHT] * (10 - wrong)
    return [ProbeOutcome(f"t{at}", "empty", Right.REJECT, each, 0.0) for at, each in enumerate(findings)]


def test_a_class_above_the_limit_or_worse_than_before_is_named(tmp_path: Path) -> None:
    before, after = (build_card("x", make_outcomes(wrong), seed=0) for wrong in (1, 2))
    before.write(tmp_path)
    baseline = read_baseline(tmp_path / "card.json")

    assert list_failures(after, fail_above=0.2, baseline=None) == []
    assert list_failures(after, fail_above=0.1, baseline=baseline) == [
        "2 of 10 false accepts at 'empty': 20.00% is above 10.00%",
        "2 of 10 false accepts at 'empty': 20.00%, and 10.00% in the baseline",
    ]
    assert list_failures(before, fail_above=None, baseline=baseline) == []


def test_a_baseline_that_is_no_card_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps({"reward": 1}))
    for file, message in (("rows.json", "is not a card"), ("none.json", "cannot be read")):
        with pytest.raises(ConfigError, match=message):
            read_baseline(tmp_path / file)
