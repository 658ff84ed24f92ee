"""The estimate of a run that stops by itself, and the ranks of models: real runs, light and dark, wide and narrow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.rollouts.lookback.ranking import rank_runs
from tests.browser.conftest import serving
from tests.browser.test_accessible import found_by_axe
from tests.browser.visits import Visit
from tests.rollouts.doubles import AGENT
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.run.until_runs import OTHER, RandomAgents, run_until

MODELS = {"small": 0.3, "medium": 0.55, "a_model_with_a_long_name_of_sixty_characters_or_some_more": 0.9}


@pytest.fixture(params=[(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")], ids=str)
def visit(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Visit]:
    width, scheme = request.param
    context = chromium.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    visit = Visit(context)
    yield visit
    context.close()


@pytest.fixture(scope="module")
def estimates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a viewer of a run to a width, of a pair and of a run with a ceiling; the newest is `r0`."""
    folder = tmp_path_factory.mktemp("estimates")
    means = {AGENT: [0.7, 0.9] * 10, OTHER: [0.2, 0.5] * 10}
    for name, options in (
        ("mean", {"until": "±8%"}),
        ("pair", {"until": f"{AGENT} differs from {OTHER}"}),
        ("short", {"until": "±3%", "max_total_tokens": 3000}),
    ):
        (folder / name).mkdir()
        run = run_until(folder / name, RandomAgents(means, tokens=100), 20, **options)
        with ThreadPoolExecutor() as thread:  # Playwright has a loop in this one
            thread.submit(asyncio.run, run).result()
    with serving([folder / name / "out.jsonl" for name in ("mean", "pair", "short")]) as address:
        yield address, folder


def is_too_wide(visit: Visit) -> bool:
    """Return whether the page scrolls to the side."""
    return bool(visit.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@pytest.mark.parametrize(
    ("number", "name", "expected"),
    [
        (2, "mean", ["95 % interval", "these 20 tasks", "at whatever moment one looks"]),
        (1, "pair", [f"{AGENT} is better than {OTHER}, by more than", "at 95 % confidence"]),
        (0, "short", ["+max_total_tokens=3000 ended the run", "3,"]),
    ],
)
def test_a_run_shows_its_estimate_and_what_it_means(
    estimates: tuple[str, Path], visit: Visit, number: int, name: str, expected: list[str]
) -> None:
    address, folder = estimates
    visit.open(address, f"#/r{number}")
    visit.wait_for("Estimate", ".estimate h2")
    shown = visit.page.locator(".estimate p").all_inner_texts()
    assert shown == json.loads((folder / name / "out_estimate.json").read_text(encoding="utf-8"))["text"]
    assert all(any(part in line for line in shown) for part in expected)
    assert not is_too_wide(visit)
    assert found_by_axe(visit, [f"#/r{number}"]) == ""
    assert visit.problems() == []


def test_the_list_has_the_interval_and_the_aim(estimates: tuple[str, Path], visit: Visit) -> None:
    address, folder = estimates
    estimate = json.loads((folder / "mean" / "out_estimate.json").read_text(encoding="utf-8"))
    visit.open(address)
    visit.wait_for(
        f"{estimate['mean']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}], until {estimate['aim']}"
    )
    assert not is_too_wide(visit)


def test_models_are_ranked_with_their_plot(tmp_path: Path, visit: Visit) -> None:
    paths = store_models(tmp_path, MODELS)
    ranking = rank_runs(paths)
    with serving(paths) as address:
        visit.open(address, "#/rank/r0/r1/r2")
        visit.wait_for("3 models")
        rows = [line.split("\t") for line in visit.page.locator("tbody tr").all_inner_texts()]
        assert [row[0] for row in rows] == [model.label for model in ranking.models]
        assert [row[1:3] for row in rows] == [
            [str(model.rank.rank), f"{model.rank.best} to {model.rank.worst}"] for model in ranking.models
        ]
        visit.wait_for("beyond doubt")
        plot = visit.page.locator("img.ranks")
        assert plot.evaluate("(image) => image.complete && image.naturalWidth > 100")
        assert not is_too_wide(visit)
        assert found_by_axe(visit, ["#/rank/r0/r1/r2"]) == ""
        assert visit.problems() == []
