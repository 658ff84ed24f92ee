"""The page of a ranking."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.rank_page import write_ranking
from tests.rollouts.lookback.many_runs import store_models


def test_the_page_has_the_plot_the_table_and_the_differences(tmp_path: Path) -> None:
    paths = store_models(tmp_path, {"small": 0.3, "<large>": 0.9})
    write_ranking(paths, tmp_path / "ranking.html")
    page = (tmp_path / "ranking.html").read_text()
    assert "<svg" in page
    assert "org/&lt;large&gt;" in page
    assert "org/<large>" not in page
    assert "1 of 1 differences are beyond doubt" in page
    assert "<script" not in page
    with pytest.raises(ConfigError):
        write_ranking(paths, paths[0])
