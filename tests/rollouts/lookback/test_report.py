from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.report import write_report
from nemo_gym.rollouts.output.manifest import Manifest
from nemo_gym.rollouts.run.until_estimate import UntilEstimate, write_estimate
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import failure_row, scored_row, store

HOSTILE = "<script>alert(1)</script>\"'><img src=http://evil.example/x onerror=alert(1)>"


class Page(HTMLParser):
    """The elements and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(path: Path) -> Page:
    write_report(path, path.with_suffix(".html"))
    return Page(path.with_suffix(".html").read_text(encoding="utf-8"))


def test_a_page_has_the_figures_of_each_agent(tmp_path: Path) -> None:
    rows = [
        scored_row(task, repeat, reward=float(repeat > task), _ng_timing={"total": 1.5})
        for task in (0, 1)
        for repeat in (0, 1)
    ]
    failures = [failure_row(2, n) for n in (0, 1)]
    page = page_of(store(tmp_path / "out.jsonl", rows, failures))
    assert page.tags.count("svg") == 4
    cells = [text for text in page.texts if text.strip()]
    for name, figure in (("tasks", "3"), ("completed", "4"), ("failed", "2"), ("mean reward", "0.25")):
        assert cells[cells.index(name) + 1] == figure
    assert cells[cells.index("engine:gone") + 1 : cells.index("engine:gone") + 3] == [
        "2",
        "the engine is gone",
    ]
    assert cells[cells.index("pass@2") + 1] == "50.0 %"


def test_text_of_rows_is_escaped_and_the_page_makes_no_request(tmp_path: Path) -> None:
    hostile = {"agent_ref": {"type": "responses_api_agents", "name": HOSTILE}}
    failure = {"_ng_failure": {"message": HOSTILE}, "_ng_failure_class": HOSTILE}
    rows = [scored_row(0) | hostile]
    page = page_of(store(tmp_path / "out.jsonl", rows, [failure_row(1) | hostile | failure]))
    assert {"script", "img", "link", "a", "iframe"}.isdisjoint(page.tags)
    assert not [
        name for name, _ in page.attributes if name in ("src", "href", "style") or name.startswith("on")
    ]
    assert any(
        name == "content" and (value or "").startswith("default-src 'none'")
        for name, value in page.attributes
    )
    assert HOSTILE in page.texts


def test_a_run_of_failures_alone_has_a_page(tmp_path: Path) -> None:
    page = page_of(store(tmp_path / "out.jsonl", [], [failure_row(0)]))
    assert "svg" not in page.tags
    assert "engine:gone" in page.texts


def test_the_run_itself_is_not_overwritten(tmp_path: Path) -> None:
    path = store(tmp_path / "out.jsonl", [scored_row(0)])
    with pytest.raises(ConfigError):
        write_report(path, path)


def test_a_score_given_twice_is_damage(tmp_path: Path) -> None:
    rows = store(tmp_path / "run.jsonl", [scored_row(0), scored_row(0)], [failure_row(0), failure_row(0)])
    with pytest.raises(ConfigError, match=r"run\.jsonl:2: duplicate row of task 0, repeat 0"):
        write_report(rows, tmp_path / "report.html")


def test_a_page_has_the_commits_of_the_run(tmp_path: Path) -> None:
    rows = store(tmp_path / "out.jsonl", [scored_row(0)])
    repositories = [{"commit": "a" * 40, "dirty": False}, None, {"commit": "b" * 40, "dirty": True}]
    starts = [{"repository": each} for each in repositories]
    Manifest({"config": {}}, starts).write(tmp_path / "out_run.json")
    assert f"Commit: {'a' * 12}; {'b' * 12}, with changes" in page_of(rows).texts
    (tmp_path / "out_run.json").write_text("{damaged")
    assert not [text for text in page_of(rows).texts if "Commit" in text]


def test_a_run_with_an_aim_has_its_estimate(tmp_path: Path) -> None:
    rows = store(tmp_path / "out.jsonl", [scored_row(0)])
    known = UntilEstimate("±0.01", None, False, 200, True, 0.7, 0.69, 0.71, 4800, 4810, 0, 9604, 2979)
    write_estimate(tmp_path / "out_estimate.json", known)
    write_report(rows, tmp_path / "report.html")
    assert "estimate: 0.700, 95 % interval 0.690 to 0.710" in (tmp_path / "report.html").read_text()
    (tmp_path / "out_estimate.json").write_bytes(b'{"mean": 1}')
    with pytest.raises(ConfigError, match="is not an estimate"):
        write_report(rows, tmp_path / "report.html")


def test_a_page_names_model_sampling_date_and_where_the_time_went(tmp_path: Path) -> None:
    (rows,) = store_models(tmp_path, {"small": 0.5}, tasks=3, repeats=2)
    manifest = orjson.loads((tmp_path / "small_run.json").read_bytes())
    manifest["identity"]["responses_create_params"] = {"temperature": 0.5}
    manifest["starts"] = [{"started_at": "2026-05-01T18:30:00+00:00", "settings": {"tags": ["nightly"]}}]
    (tmp_path / "small_run.json").write_bytes(orjson.dumps(manifest))
    timing = {"verify": 1.5, "total": 2.0, "calls": [["m", "/v1/responses", 0.5]]}
    lines = [
        orjson.loads(line) | {"_ng_timing": timing, "reward": 0.25} for line in rows.read_bytes().splitlines()
    ]
    rows.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    texts = page_of(rows).texts
    for text in (
        "Model: org/small",
        "Sampling: temperature 0.5",
        "Started: 2026-05-01T18:30:00+00:00",
        "Tags: nightly",
        "seconds, verify",
        "best@2",
    ):
        assert text in texts
    assert "pass@2" not in texts, "a partial reward is no pass"
