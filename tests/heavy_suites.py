"""The commit at which each heavy suite last passed as a whole: `tests/heavy_suites.json`, which the suites write.

`python -m tests.heavy_suites passed chaos` notes a pass at the current commit; the Makefile calls it after each suite.
`python -m tests.heavy_suites` warns of suites whose code changed since; `make check` calls it. A warning is no failure:
a suite of an hour is run before a change that it covers is called done, not before every commit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
FILE = "tests/heavy_suites.json"
_SERVERS = ("resources_servers", "responses_api_agents", "responses_api_models", "environment_servers")

COVERED: Final[Mapping[str, tuple[str, ...]]] = {
    "test": ("nemo_gym", *_SERVERS, "simulation", "perf", "tests", "docs", "pyproject.toml"),
    "chaos": ("nemo_gym", "resources_servers/code_gen", "resources_servers/math_with_judge", "tests/chaos"),
    "simulate": ("nemo_gym/rollouts", "nemo_gym/episodes", "nemo_gym/transport", "simulation"),
    "test-cluster": ("nemo_gym/launch", "nemo_gym/transport", "nemo_gym/rollouts", "tests/cluster"),
    "test-train": (
        "nemo_gym/export",
        "nemo_gym/client",
        "nemo_gym/rows",
        "nemo_gym/tokens",
        "examples",
        "tests/train",
    ),
    "test-trackers": ("nemo_gym/rollouts/tracking", "tests/rollouts/tracking"),
    "test-browser": ("nemo_gym/viewer", "viewer", "docs", "tests/browser"),
    "test-vllm": (
        "nemo_gym/engines",
        "nemo_gym/tokens",
        "nemo_gym/responses",
        "responses_api_models",
        "tests/vllm",
    ),
    "test-harnesses": (
        "nemo_gym/engines",
        "nemo_gym/responses",
        "responses_api_agents/external_agent",
        "tests/harnesses",
    ),
    "test-folders": ("nemo_gym/sources/task_folders", "nemo_gym/sandbox/providers/rootless", "tests/folders"),
    "test-foreign": ("nemo_gym/sources/foreign", "resources_servers/foreign", "tests/foreign"),
    "test-ecosystem": ("nemo_gym", "tests/ecosystem_wheel"),
}
"""The `make` targets of the heavy suites, and the paths whose changes they can see."""


def run_git(*arguments: str, root: Path) -> str | None:
    """Return what git prints; None if it fails, as outside a checkout or for a commit that a shallow clone lacks."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def read_passes(root: Path = ROOT) -> dict[str, dict[str, str]]:
    """Return the suites that passed, each with its `commit` and its `date`."""
    file = root / FILE
    passes: dict[str, dict[str, str]] = json.loads(file.read_bytes()) if file.exists() else {}
    return passes


def note_pass(suite: str, root: Path = ROOT) -> str | None:
    """Write down that `suite` passed at the current commit. Return why that cannot be said; None if it is written."""
    commit = run_git("rev-parse", "HEAD", root=root)
    if commit is None:
        return "this is no git checkout"
    if changed := run_git("status", "--porcelain", "--", *COVERED[suite], f":!{FILE}", root=root):
        return "uncommitted changes:\n" + changed
    passes = read_passes(root)
    passes[suite] = {"commit": commit[:12], "date": datetime.now(UTC).date().isoformat()}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(passes[name])}" for name in sorted(passes))
    (root / FILE).write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    return None


def find_stale(root: Path = ROOT) -> Iterator[str]:
    """Yield a line for each suite that never passed, or whose paths changed since it did."""
    if run_git("rev-parse", "HEAD", root=root) is None:
        return
    passes = read_passes(root)
    for suite, paths in COVERED.items():
        if suite not in passes:
            yield f"`make {suite}`: no pass is on record"
            continue
        commit = passes[suite]["commit"]
        changed = run_git("diff", "--name-only", commit, "--", *paths, f":!{FILE}", root=root)
        if changed is None:
            yield f"`make {suite}`: its last pass, at {commit}, is of a commit that this checkout lacks"
        elif changed:
            files = len(changed.splitlines())
            yield f"`make {suite}`: files that it covers changed since it passed at {commit}: {files}"


def main(arguments: list[str]) -> int:
    if not arguments:
        for line in find_stale():
            print(f"warning: {line}")
        return 0
    if len(arguments) != 2 or arguments[0] != "passed" or arguments[1] not in COVERED:
        print(f"usage: python -m tests.heavy_suites [passed {{{','.join(COVERED)}}}]", file=sys.stderr)
        return 2
    if reason := note_pass(arguments[1]):
        print(f"The pass of `make {arguments[1]}` was not noted: {reason}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
