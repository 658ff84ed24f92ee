"""Test runs of implementations, in the same folder and environment as their servers.

Each suite is a separate pytest process, because two environments may have modules of the same name and conflicting
requirements. If the running interpreter lacks a requirement, or pytest, a virtual environment is built
(`nemo_gym.launch.environments`).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nemo_gym import PARENT_DIR
from nemo_gym.authoring._warm_pytest import run_forked
from nemo_gym.authoring.implementations import Implementation
from nemo_gym.launch.environments import Environments
from nemo_gym.launch.plan import REQUIREMENTS_FILE

TEST_REQUIREMENTS = ("pytest>=8", "pytest-asyncio>=1.0")
"""The requirements of every suite. Tests may be coroutines."""
_PYTEST_OPTIONS = (
    "--import-mode=importlib",
    "-p",
    "no:cacheprovider",
    "-o",
    "asyncio_mode=auto",
    "-o",
    "asyncio_default_fixture_loop_scope=function",
)


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NO_TESTS = "no tests"


_VERDICTS = {0: Verdict.PASSED, 5: Verdict.NO_TESTS}
"""The verdicts by pytest's exit code; any other code is a failure."""


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The result of a suite."""

    implementation: Implementation
    verdict: Verdict
    seconds: float = 0.0
    """With the time to build its environment."""
    passed: int = 0
    failed: int = 0
    """Number of failures and errors."""
    skipped: int = 0
    output: str = ""
    """The output of pytest, if it was captured."""


def run_suite(
    implementation: Implementation,
    environments: Environments,
    *,
    pytest_args: Sequence[str] = (),
    shows_output: bool = True,
) -> SuiteResult:
    """Run the tests of `implementation`. Raises `LaunchError` if their environment cannot be built."""
    if not implementation.has_tests:
        return SuiteResult(implementation, Verdict.NO_TESTS)
    began = time.monotonic()
    requirements = implementation.folder / REQUIREMENTS_FILE
    python = environments.choose(requirements if requirements.is_file() else None, beside=TEST_REQUIREMENTS)
    with tempfile.TemporaryDirectory() as folder:
        report, output = Path(folder) / "report.xml", Path(folder) / "output"
        arguments = [str(implementation.tests), *_PYTEST_OPTIONS, f"--junit-xml={report}", *pytest_args]
        code = _run_pytest(implementation, python, arguments, None if shows_output else output)
        seconds = time.monotonic() - began
        printed = "" if shows_output else output.read_text(encoding="utf-8", errors="replace")
        verdict = _VERDICTS.get(code, Verdict.FAILED)
        return SuiteResult(implementation, verdict, seconds, *_read_counts(report), output=printed)


def _run_pytest(
    implementation: Implementation, python: str | None, arguments: Sequence[str], output: Path | None
) -> int:
    """Run pytest by `python` or by the running interpreter, and return its exit code."""
    # The folder for `import app`, the root for `import resources_servers.<name>.app`, then the gym's own folder.
    search_path = list(dict.fromkeys([str(implementation.folder), str(implementation.root), str(PARENT_DIR)]))
    if python is None:
        return run_forked(arguments, implementation.folder, search_path, output)
    with output.open("ab") if output is not None else nullcontext() as file:
        return subprocess.run(
            [python, "-m", "pytest", *arguments],
            cwd=implementation.folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(search_path),
                "NEMO_GYM_WORKING_DIR": str(Path.cwd()),
            },
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=None if file is None else subprocess.STDOUT,
            check=False,
        ).returncode


def _read_counts(report: Path) -> tuple[int, int, int]:
    """Return the numbers of passed, failed and skipped tests; zeros if pytest wrote no report."""
    if not report.is_file():
        return 0, 0, 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    return total - failed - skipped, failed, skipped
