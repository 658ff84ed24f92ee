"""The tests that came with the environments pass, by the command that people run them with."""

from __future__ import annotations

from pathlib import Path

from tests.ecosystem.conftest import FIXTURES, run

SUITES = sorted(path.parent.relative_to(FIXTURES).as_posix() for path in FIXTURES.glob("*/*/app.py"))
"""Of every environment, agent and model: one without tests is not `passed`."""


def test_every_suite_is_green_as_it_stands(project: Path, environment: dict[str, str]) -> None:
    assert len(SUITES) >= 30
    done = run(project, environment, "test", f"+entrypoint=[{','.join(SUITES)}]")
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = {line.partition(": ")[0]: line.partition(": ")[2] for line in done.stdout.splitlines()}
    assert [name for name in SUITES if not verdicts[name].startswith("passed")] == []
