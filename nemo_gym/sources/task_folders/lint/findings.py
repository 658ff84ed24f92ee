"""The rules of the linter, and a finding as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class LintRule(StrEnum):
    """The ids of the format's own linter."""

    INVALID_TASK_CONFIG = "invalid-task-config"
    UNKNOWN_CONFIG_FIELD = "unknown-config-field"
    INVALID_TASK_FILES = "invalid-task-files"
    ROOT_AGENT = "root-agent"
    SHARED_VERIFIER = "shared-verifier"
    OVERLAPPING_ARTIFACTS = "overlapping-artifacts"
    ARTIFACT_LOG_OVERLAP = "artifact-log-overlap"
    UNPINNED_IMAGE = "unpinned-image"
    UNPINNED_PYTHON_DEPENDENCY = "unpinned-python-dependency"
    VERIFIER_RUNTIME_INSTALL = "verifier-runtime-install"
    VERIFIER_NETWORK_DOWNLOAD = "verifier-network-download"
    AGENT_IMAGE_TEST_LEAK = "agent-image-test-leak"


DEFAULT_RULES = frozenset(LintRule) - {LintRule.ROOT_AGENT, LintRule.UNPINNED_IMAGE}
"""The rules that are on unless a dataset or a user says otherwise."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A place in a task folder that breaks a rule."""

    rule: LintRule
    path: Path
    message: str
    line: int | None = None

    def describe(self, root: Path) -> str:
        """Return it as a line, with its path below the task."""
        place = self.path.relative_to(root) if self.path.is_relative_to(root) else self.path
        number = f":{self.line}" if self.line is not None else ""
        return f"{place}{number}: {self.message} [{self.rule}]"
