"""Every code block of the site and the README is valid, and is executed or says why not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from docs.snippets import DOCS, pages, problem_of, snippets_of
from nemo_gym import PARENT_DIR

PAGES = pages()
EXECUTED_ABOVE = 75
"""A lower bound of the blocks that tests execute, hidden preparations excluded."""
NOT_RUN = {
    "README.md": 1,  # GSM8K
    "cluster.md": 3,  # need a gym on several machines; the start and the use of a Ray cluster
    "cluster_recipes.md": 1,  # Kubernetes
    "audit.md": 2,  # need a corpus, and a run
    "commands.md": 46,  # one example of each command
    "continue_fork_rewind.md": 1,  # a harness or environment that prints durations
    "foreign_environments.md": 2,  # the package index
    "from_aviary.md": 3,  # the package index, the rows of a run
    "from_inspect.md": 4,  # the package index, Inspect's packages, a log of Inspect, the rows of a run
    "from_nemo_gym.md": 1,
    "from_openenv.md": 4,  # the package index, the rows of a run, a server, OpenEnv
    "from_ors.md": 3,  # a server, the package index, the rows of a run
    "from_textarena.md": 2,  # the package index, a model
    "from_verifiers.md": 4,  # the package index, the rows of a run, verifiers, a server
    "gateway.md": 1,
    "gym.md": 1,  # a benchmark of the hub
    "install.md": 1,
    "metrics.md": 1,  # two runs, and pandas
    "performance.md": 2,
    "quick_start.md": 2,  # vLLM, the engine stub
    "sandboxes.md": 1,
    "task_folders.md": 4,
    "simulation.md": 1,
    "telemetry.md": 2,  # W&B and MLflow, an exporter of traces
    "train_asynchronously.md": 1,  # needs TRL
    "train_with_trl.md": 2,
    "training.md": 1,
    "verification.md": 1,
    "viewer.md": 1,
}
"""The number of blocks that cannot run here, by page. Each has its reason in the source of the page."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_valid(page: Path) -> None:
    found = {snippet.line: problem_of(snippet) for snippet in snippets_of(page.read_text(encoding="utf-8"))}
    assert {line: problem for line, problem in found.items() if problem} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_fence_is_read_as_a_block(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    fences = [line for line in text.splitlines() if line.lstrip().startswith("```")]
    shown = [snippet for snippet in snippets_of(text) if not snippet.is_hidden]
    assert len(fences) == 2 * len(shown), "a fence begins a line, and its language is a word"


def test_blocks_without_execution_are_counted_and_have_a_reason() -> None:
    skipped: Counter[str] = Counter()
    executed = 0
    for page in PAGES:
        for snippet in snippets_of(page.read_text(encoding="utf-8")):
            executed += snippet.is_executed and not snippet.is_hidden
            if snippet.mark == "not run":
                skipped[page.name] += 1
                assert len(snippet.value.split()) >= 3, f"{page.name}:{snippet.line} has no reason"
            if snippet.mark == "run by":
                assert (PARENT_DIR / snippet.value).is_file(), f"{page.name}:{snippet.line}"
                executed += 1
    assert dict(skipped) == NOT_RUN
    assert executed > EXECUTED_ABOVE


def test_a_wrong_block_is_found() -> None:
    page = (
        "```bash\nng_export +formt=sft\n```\n```bash\ngym eval rnu mcqa\n```\n```bash\ngym eval run --modle x\n```\n"
        "```bash\nif true\n```\n```python\nfrom nemo_gym.client import Gim\n```\n```json\n{]\n```\n"
        "```bash\nng_nothing\n```\n"
    )
    assert all(problem_of(snippet) for snippet in snippets_of(page))
    with pytest.raises(ValueError, match="there is no mark"):
        list(snippets_of("<!-- never run: it is late -->\n```bash\ntrue\n```\n"))


def test_the_pages_beside_the_site_are_read() -> None:
    assert PAGES[0] == PARENT_DIR / "README.md"
    assert len(PAGES) == 1 + len(list(DOCS.glob("*.md")))
