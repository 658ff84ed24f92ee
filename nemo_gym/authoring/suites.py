"""The tests of an implementation, run as its servers are: in its folder, by an interpreter that has what it needs.

Each suite is a pytest process of its own, because two environments may have modules of one name and requirements
that exclude each other. Where the running interpreter lacks something, pytest itself included, an environment is
built that has it (`nemo_gym.launch.environments`).
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
"""What suites are written with: coroutines are tests too."""
_PYTEST_OPTIONS = (
    "--import-mode=importlib",
    "-p",
    "no:cacheprovider",
    "-o",
    "asyncio_mode=auto",
    "-o",
    "asyncio_default_fixture_loop_scope=function",
)
_NO_TESTS_RAN = 5


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NO_TESTS = "no tests"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """How a suite ended."""

    implementation: Implementation
    verdict: Verdict
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    """Failures and errors."""
    skipped: int = 0
    output: str = ""
    """What pytest printed, where it was not shown as it came."""


def run_suite(
    implementation: Implementation,
    environments: Environments,
    *,
    pytest_args: Sequence[str] = (),
    shows_output: bool = True,
) -> SuiteResult:
    """Run the tests of `implementation`. Raises `LaunchError` when an environment for them cannot be built."""
    if not implementation.has_tests:
        return SuiteResult(implementation, Verdict.NO_TESTS)
    requirements = implementation.folder / REQUIREMENTS_FILE
    python = environments.choose_now(
        requirements if requirements.is_file() else None, beside=TEST_REQUIREMENTS
    )
    with tempfile.TemporaryDirectory() as folder:
        report, output = Path(folder) / "report.xml", Path(folder) / "output"
        arguments = [str(implementation.tests), *_PYTEST_OPTIONS, f"--junit-xml={report}", *pytest_args]
        began = time.monotonic()
        code = _run_pytest(implementation, python, arguments, None if shows_output else output)
        seconds = time.monotonic() - began
        printed = "" if shows_output else output.read_text(encoding="utf-8", errors="replace")
        return SuiteResult(implementation, _verdict(code), seconds, *_read_counts(report), output=printed)


def _run_pytest(
    implementation: Implementation, python: str | None, arguments: Sequence[str], output: Path | None
) -> int:
    """The exit code of pytest, run by `python`, or by the running interpreter."""
    # Its folder for `import app`, its root for `import resources_servers.<name>.app`, then ours.
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


def _verdict(code: int) -> Verdict:
    if code == _NO_TESTS_RAN:
        return Verdict.NO_TESTS
    return Verdict.PASSED if code == 0 else Verdict.FAILED


def _read_counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped tests; zeros where pytest did not come as far as to report."""
    if not report.is_file():
        return 0, 0, 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    return total - failed - skipped, failed, skipped
