from __future__ import annotations

from xml.etree import ElementTree

import pytest

from nemo_gym.rollouts.lookback._charts import Bar, bar_chart, curve_chart, histogram


def test_few_values_have_a_bar_each() -> None:
    assert histogram([0, 1, 1, 0.5]) == [Bar("0", 1), Bar("0.5", 1), Bar("1", 2)]
    assert histogram([]) == []


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_many_values_are_counted_in_intervals(scale: float) -> None:
    bars = histogram([scale * (n / 100 - 0.5) for n in range(100)])
    assert len(bars) == 24
    assert sum(bar.number for bar in bars) == 100
    assert max(bar.number for bar in bars) == 5


def test_charts_are_xml_with_their_figures_and_escaped_labels() -> None:
    chart = ElementTree.fromstring(bar_chart("a < b", [Bar("<x>", 3), Bar("y", 0)]))
    assert [title.text for title in chart.iter("title")] == ["<x>: 3", "y: 0"]
    assert chart.find("figcaption").text == "a < b"  # type: ignore[union-attr]
    heights = [float(bar.attrib["height"]) for bar in chart.iter("rect")]
    assert (heights[0] > 100, heights[1]) == (True, 0)


def test_a_curve_has_a_point_for_each_number() -> None:
    chart = ElementTree.fromstring(curve_chart("pass@k", {1: 0.0, 2: 50.0, 4: 100.0}))
    heights = [float(point.attrib["cy"]) for point in chart.iter("circle")]
    assert heights[0] - heights[1] == heights[1] - heights[2] > 0
    assert "k = 4: 100.0 %" in [title.text for title in chart.iter("title")]
    assert ElementTree.fromstring(curve_chart("pass@k", {1: 30.0})).findall(".//circle")
