"""The verdict of every rollout, in two files: the ecosystem's form of a health check, by the rules of this room."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from nemo_gym.rollouts.lookback.health.checking import HealthCheck
from nemo_gym.rollouts.lookback.health.rules import RULES, Finding, Severity
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.plan.dataset import read_lines

VERDICTS_FILE = "rollout_verdicts.jsonl"
SUMMARY_FILE = "quality_summary.json"


class RolloutVerdict(BaseModel):
    """The health of one rollout. It is unhealthy if its data is broken."""

    task_index: int
    rollout_index: int
    verdict: Literal["healthy", "unhealthy"]
    findings: list[dict[str, str]]
    """The rule (`check`), its `severity` and the `detail` of each finding."""


class HealthCheckResult(BaseModel):
    """The verdicts of a run, and the files that hold them."""

    summary: dict[str, Any]
    rollouts: list[RolloutVerdict]
    summary_path: Path
    verdicts_path: Path


def run_health_checks(
    rollout_paths: Path | Sequence[Path],
    *,
    output_dir: Path | None = None,
    workers: int | None = None,
    ignored_checks: Sequence[str] = (),
) -> HealthCheckResult:
    """Check the rows of files as one run, and write verdicts and summary into `output_dir`.

    The default of `output_dir` is the folder of the first file. `workers` has no effect: one process checks all rows.
    Raises `ConfigError` if a file is absent or a rule of `ignored_checks` is unknown.
    """
    paths = [rollout_paths] if isinstance(rollout_paths, Path) else list(rollout_paths)
    check = HealthCheck(ignored_checks)
    findings = [
        finding
        for number, line in enumerate(_read_lines(paths), 1)
        for finding in check.read_line(line, number)
    ]
    findings += check.finish()
    folder = output_dir or paths[0].parent
    result = HealthCheckResult(
        summary={"run": {"ignored_checks": list(ignored_checks), **_counts(check, findings)}},
        rollouts=_verdicts(check, findings),
        summary_path=folder / SUMMARY_FILE,
        verdicts_path=folder / VERDICTS_FILE,
    )
    folder.mkdir(parents=True, exist_ok=True)
    result.summary_path.write_text(json.dumps(result.summary, indent=2) + "\n", encoding="utf-8")
    lines = [f"{rollout.model_dump_json()}\n" for rollout in result.rollouts]
    result.verdicts_path.write_text("".join(lines), encoding="utf-8")
    return result


def _read_lines(paths: Sequence[Path]) -> Iterator[bytes]:
    for path in paths:
        yield from (line.content for line in read_lines(RunFiles.from_existing(path).rows))


def _counts(check: HealthCheck, findings: Sequence[Finding]) -> dict[str, Any]:
    found = Counter(finding.rule for finding in findings)
    return {"records": len(check.attempts), "issues": {rule.name: found[rule.name] for rule in check.rules}}


def _verdicts(check: HealthCheck, findings: Sequence[Finding]) -> list[RolloutVerdict]:
    """Return the verdicts in the order of the rows. A finding in a whole task or run is of no single rollout."""
    of_rollout = defaultdict(list)
    for finding in findings:
        of_rollout[finding.task, finding.repeat].append(finding)
    return [
        RolloutVerdict(
            task_index=attempt.task,
            rollout_index=attempt.repeat,
            verdict="unhealthy" if any(map(_is_fault, found)) else "healthy",
            findings=[
                {"check": each.rule, "severity": RULES[each.rule].severity, "detail": each.text}
                for each in found
            ],
        )
        for attempt in check.attempts
        for found in [of_rollout[attempt.task, attempt.repeat]]
    ]


def _is_fault(finding: Finding) -> bool:
    return RULES[finding.rule].severity is Severity.FAULT
