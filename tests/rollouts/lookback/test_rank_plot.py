"""The plot of a ranking."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from nemo_gym.rollouts.lookback.rank_plot import draw_ranking
from nemo_gym.rollouts.lookback.ranking import rank_runs
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import scored_row, store


def test_every_model_has_a_line_within_the_plot(tmp_path: Path) -> None:
    ranking = rank_runs(store_models(tmp_path, {"small": 0.3, "large": 0.9, "<b>": 0.5}))
    root = ElementTree.fromstring(draw_ranking(ranking))
    lines = [each for each in root.iter() if each.tag.endswith("line")]
    assert len(lines) == 3
    for line in lines:
        assert 220 <= float(line.get("x1", "")) <= float(line.get("x2", "")) <= 580
    assert any(each.text == "org/<b>" for each in root.iter())


def test_one_task_has_no_interval(tmp_path: Path) -> None:
    paths = [
        store(tmp_path / f"{name}.jsonl", [scored_row(0, reward=2.0)])
        for name in ("a", "a_very_" + "long" * 9)
    ]
    root = ElementTree.fromstring(draw_ranking(rank_runs(paths)))
    assert any((each.text or "").endswith("…") for each in root.iter())
