"""The measuring suite itself: causes of failures, and the comparison with kept figures. It needs no wheel."""

from __future__ import annotations

import pytest

from tests.ecosystem_wheel.agents import Answer, table_of
from tests.ecosystem_wheel.causes import cause_of
from tests.ecosystem_wheel.figures import fallen, figures_of, page_of
from tests.ecosystem_wheel.packages import requirements_of
from tests.ecosystem_wheel.stages import Finding


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "ImportError: cannot import name 'Box' from 'nemo_gym.sandbox' (/x.py)",
            "missing name: nemo_gym.sandbox.Box",
        ),
        ("ModuleNotFoundError: No module named 'nemo_gym.boxes'", "missing name: nemo_gym.boxes"),
        ("ModuleNotFoundError: No module named 'swebench.harness'", "missing package: swebench.harness"),
        ("ModuleNotFoundError: No module named 'torch.nn'", "package that the environment leaves out: torch"),
        ("OSError: [Errno 101] Network is unreachable", "no network"),
        ("Command '['git', 'clone', 'https://x']' returned non-zero exit status 128.", "no network"),
        ("a.yaml:3:5: x.simple_agent: simple_agent has no option 'steps'.", "refused option: steps"),
        ("a.yaml:3:5: x.judge refers to `${judge}`, which does not exist.", "value that the user gives"),
        ("x.key is required. Write +x.key=<value>.", "value that the user gives"),
        ("x.key must be a valid string.", "value of another type"),
        ("datasets -> 0 -> license: Must be \none of: 'MIT'", "license that the list of their core lacks"),
        ("There is no folder resources_servers/x. Looked in /y.", "missing file"),
        ("assert 1 == 2", "other: assert 1 == 2"),
    ],
)
def test_a_failure_has_one_cause(text: str, cause: str) -> None:
    assert str(cause_of(text, {"torch": "too large"})) == cause


def test_fewer_green_items_than_kept_are_reported() -> None:
    red = Finding("a/app.py", [cause_of("No module named 'torch'", {})])
    kept = {"imports": figures_of("imports", [Finding("a/app.py"), Finding("b/app.py")])}
    now = {"imports": figures_of("imports", [red, Finding("b/app.py")])}
    assert fallen(kept, now) == ["`app.py` that import: 1, and 2 are kept"]
    assert fallen(now, kept) == []
    assert "| 1 | missing package: torch | `a/app.py` |" in page_of(now)


def test_the_folders_of_an_older_version_have_figures_of_their_own() -> None:
    page = page_of({"tests 0.5.1": figures_of("tests", [Finding("a", tests_passed=16)])})
    assert "| folders of 0.5.1 whose own tests pass | 1 | 1 |\n| tests passed (0.5.1) | 16 | |" in page


def test_the_table_of_agents_says_how_far_each_came() -> None:
    reason = cause_of("No module named 'swegym'", {})
    _, answered, failed = table_of([Answer("a", True, None), Answer("b", False, reason)]).splitlines()
    assert answered.split() == ["a", "yes", "yes"]
    assert failed.split(maxsplit=3) == ["b", "no", "no", "missing package: swegym"]


def test_the_environment_has_the_versions_of_the_ecosystem_where_ours_contradict_them() -> None:
    theirs = ["mcp<2,>=1.28.1", 'pytest; extra == "dev"', 'vllm==0.29.0; extra == "vllm"', "wandb>=0.30.0"]
    ours = [
        'MCP>=2; extra == "dev"',
        'pytest>=8; extra == "dev"',
        "hydra_core>=1.3",
        "vllm>=0.10.2; extra=='vllm'",
    ]
    assert requirements_of(theirs, ours) == ["hydra_core>=1.3", "mcp<2,>=1.28.1", "pytest"]
