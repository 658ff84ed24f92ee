"""The rules of the linter."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.sources.task_folders.lint.findings import DEFAULT_RULES, LintFinding, LintRule


def test_two_rules_are_off_by_default() -> None:
    assert set(LintRule) - DEFAULT_RULES == {"root-agent", "unpinned-image"}


def test_a_finding_names_its_line() -> None:
    finding = LintFinding(LintRule.UNPINNED_IMAGE, Path("/a/b"), "why", 3)
    assert finding.describe(Path("/a")) == "b:3: why [unpinned-image]"
