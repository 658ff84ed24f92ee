"""The stages that need the wheel's folders: imports, configurations, and the folders' own tests."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.ecosystem_wheel import agents, packages, wheel
from tests.ecosystem_wheel.causes import Cause, cause_of

PROBES = Path(__file__).parent
PROCESSES = int(os.environ.get("PROCESSES") or 2)
SUITE_LIMIT_S = 600
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
PLUGINS = ("pytest_asyncio.plugin", "anyio.pytest_plugin")
"""The plugins that folders use. Those of all installed packages would take ten seconds a folder to import."""


@dataclass(frozen=True)
class Finding:
    """One item of a stage. It has no causes if it succeeded."""

    item: str
    causes: Sequence[Cause] = ()
    tests_passed: int = 0
    tests_failed: int = 0

    @property
    def is_green(self) -> bool:
        return not self.causes


@dataclass(frozen=True)
class Workplace:
    """The interpreter of the ecosystem's packages, and the packages that it leaves out."""

    python: Path
    left_out: Mapping[str, str]

    def run(
        self,
        *arguments: str,
        given: str = "",
        limit_s: float | None = None,
        paths: Sequence[Path] = (wheel.TREE,),
    ) -> str:
        """Run Python in the tree and return its output, errors included. `paths`: where it searches for modules."""
        environment = {**os.environ, **OFFLINE, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        try:
            done = subprocess.run(
                [self.python, *arguments],
                cwd=wheel.TREE,
                env=environment,
                input=given,
                check=False,
                text=True,
                stdout=subprocess.PIPE,
                stderr=sys.stderr if given else subprocess.STDOUT,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            return f"the tests take over {limit_s:g} s"
        return done.stdout

    def cause(self, text: str) -> Cause:
        return cause_of(text, self.left_out)


def imports(workplace: Workplace) -> list[Finding]:
    """Import every `app.py` in a process of its own."""
    answers = _probe(workplace, "import_probe.py", map(str, wheel.applications()))
    return [_of_import(workplace, answer) for answer in answers]


def _of_import(workplace: Workplace, answer: Mapping[str, Any]) -> Finding:
    error = answer["error"]
    causes = [workplace.cause(error["text"])] if error else []
    return Finding(str(answer["file"]), causes)


def configurations(workplace: Workplace) -> list[Finding]:
    """Load every configuration with our validation."""
    return [
        Finding(answer["file"], sorted({workplace.cause(problem) for problem in answer["problems"]}))
        for answer in _loaded(workplace)
    ]


def refusals(workplace: Workplace) -> list[Finding]:
    """Load each configuration that ours accepts with the wheel's own core too, with the same command line."""
    wheel.lay_out_core()
    accepted = (json.dumps(answer) for answer in _loaded(workplace) if not answer["problems"])
    answers = _probe(workplace, "theirs_probe.py", accepted, paths=(wheel.CORE, wheel.REPOSITORY))
    return [
        Finding(answer["file"], [workplace.cause(answer["error"])] if answer["error"] else [])
        for answer in answers
    ]


def _loaded(workplace: Workplace) -> list[dict[str, Any]]:
    """Load every configuration with our package, which is installed elsewhere, as it is for users."""
    return _probe(workplace, "config_probe.py", map(str, configuration_files()), paths=(wheel.REPOSITORY,))


def configuration_files() -> list[Path]:
    """Return every YAML file of the wheel that declares a server or includes a file that does."""
    files = sorted(file for folder in wheel.FOLDERS for file in (wheel.TREE / folder).rglob("*.yaml"))
    return [file.relative_to(wheel.TREE) for file in files if is_configuration(file)]


def is_configuration(file: Path) -> bool:
    """Return whether a top-level value of the file is a server block, or the file includes others."""
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except yaml.YAMLError:
        return False
    if not isinstance(content, dict):
        return False
    blocks = [block for block in content.values() if isinstance(block, dict)]
    return "config_paths" in content or any(not block.keys().isdisjoint(wheel.ROLES) for block in blocks)


def tests(workplace: Workplace, wanted: Sequence[str]) -> list[Finding]:
    """Run the tests of every environment folder in a pytest of its own, or of the folders that `wanted` names."""
    words = wanted or (f"{wheel.ENVIRONMENTS}/",)
    folders = [each for each in wheel.suites() if any(word in str(each) for word in words)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        return list(pool.map(lambda folder: _run_suite(workplace, folder), folders))


def agents_of(workplace: Workplace, wanted: Sequence[str]) -> list[Finding]:
    """Collect one rollout of each agent that needs no network, or of those that a word of `wanted` names."""
    answers = asyncio.run(agents.collect_all(packages.agents_python(), workplace.left_out, wanted))
    return [Finding(agent, [reason] if reason is not None else []) for agent, _, reason in answers]


STAGES = {"imports": imports, "configurations": configurations, "refusals": refusals}
SAMPLED = {"tests": tests, "agents": agents_of}
"""Stages of which `FOLDERS` chooses items."""

_COUNT = re.compile(r"(\d+) (passed|failed|errors?)\b")
_BROKEN = re.compile(r"^(?:FAILED|ERROR) .*$", re.MULTILINE)


def _run_suite(workplace: Workplace, folder: Path) -> Finding:
    options = ["-q", "-p", "no:cacheprovider", "--no-header", "-rfE", "--tb=line", "--asyncio-mode=auto"]
    plugins = [word for plugin in PLUGINS for word in ("-p", plugin)]
    command = ["-m", "pytest", *options, *plugins, "--maxfail=50", str(folder / "tests")]
    # Tests import modules beside `app.py` by their bare names, because the ecosystem runs them in that folder.
    paths = (wheel.TREE, wheel.TREE / folder)
    output = workplace.run(*command, limit_s=SUITE_LIMIT_S, paths=paths)
    print(f"{folder}: {output.strip().splitlines()[-1:]}", file=sys.stderr, flush=True)
    counts = {kind.rstrip("s"): int(count) for count, kind in _COUNT.findall(output[-400:])}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if counts.get("passed") and not failed:
        return Finding(str(folder), tests_passed=counts["passed"])
    texts = _BROKEN.findall(output) or [output[-2000:]]
    print(*(f"  {text[:200]}" for text in texts[:5]), sep="\n", file=sys.stderr, flush=True)
    causes = sorted({workplace.cause(text) for text in texts})
    return Finding(str(folder), causes, counts.get("passed", 0), failed)


def _probe(
    workplace: Workplace, program: str, items: Iterable[str], *, paths: Sequence[Path] = (wheel.TREE,)
) -> list[dict[str, Any]]:
    """Run a probe on `items` in several processes, and return its answers in the order of the items."""
    every = list(items)
    parts = [every[start::PROCESSES] for start in range(PROCESSES)]
    script = str(PROBES / program)
    with ThreadPoolExecutor(PROCESSES) as pool:
        outputs = pool.map(
            lambda part: workplace.run(script, given="\n".join(part) + "\n", paths=paths), parts
        )
        answers = [json.loads(line) for output in outputs for line in output.splitlines()]
    return sorted(answers, key=lambda answer: str(answer["file"]))
