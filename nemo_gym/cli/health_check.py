"""`ng_health_check`: find signs of broken data and of reward hacking in a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nemo_gym.cli.command import EXIT_CODES, Command, ExitCode, Keys, several

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.health import Finding, HealthReport


class HealthKeys(Keys):
    input_jsonl_fpath: str = Field(description="The scored rows of a run.")
    skip: str | list[str] = Field([], description="Rules that are not checked.")
    strict: bool = Field(False, description="Exit with 1 for signs too, not for faults alone.")
    places: int = Field(5, ge=0, description="The places to list for each rule; JSON has up to 1,000.")
    markdown: bool = Field(False, description="Print Markdown.")
    as_json: bool = Field(False, alias="json", description="Print JSON.")


COMMAND = Command(
    name="ng_health_check",
    summary="Find signs of broken data and of reward hacking in the rows of a run.",
    example="ng_health_check +input_jsonl_fpath=results/rollouts.jsonl +skip=[no_variance,truncated]",
    keys=HealthKeys,
    exit_codes={**EXIT_CODES, ExitCode.FATAL: "failed, or faults were found (with `strict`: or signs)"},
)


def check_run(keys: HealthKeys) -> int:
    from nemo_gym.rollouts.lookback.health import check_health

    report = check_health(Path(keys.input_jsonl_fpath), skip=several(keys.skip))
    if keys.as_json:
        print(json.dumps(_dump_report(report), indent=2))
    else:
        from nemo_gym.tables import fold_text, terminal_width

        width = None if keys.markdown else terminal_width()
        print(fold_text("\n".join((_markdown if keys.markdown else _plain)(report, keys)), width))
    is_ill = report.found if keys.strict else report.has_faults
    return ExitCode.FATAL if is_ill else ExitCode.COMPLETE


def _plain(report: HealthReport, keys: HealthKeys) -> Iterator[str]:
    for findings in report.found:
        yield f"{findings.rule.severity:<6}{findings.rule.name} ({findings.count:,}): {findings.rule.words}"
        yield from (f"      {_place(finding)}: {finding.text}" for finding in findings.first[: keys.places])
        if findings.count > keys.places > 0:
            yield f"      … {findings.count - keys.places:,} more (+places=)"
    yield from (f"note: {note}" for note in report.account.notes())
    yield _conclusion(report)


def _markdown(report: HealthReport, keys: HealthKeys) -> Iterator[str]:
    yield _conclusion(report)
    yield from (f"- note: {note}" for note in report.account.notes())
    for findings in report.found:
        yield ""
        yield f"- **{findings.rule.name}** ({findings.rule.severity}, {findings.count:,}): {findings.rule.words}"
        for finding in findings.first[: keys.places]:
            text = finding.text.replace("`", "'").replace("\n", " ")
            yield f"  - {_place(finding)}: `{text}`"


def _place(finding: Finding) -> str:
    names = (("line", finding.line), ("task", finding.task), ("repeat", finding.repeat))
    return ", ".join(f"{name} {number}" for name, number in names if number is not None) or "run"


def _conclusion(report: HealthReport) -> str:
    faults, signs = (
        [findings.rule.name for findings in report.found if findings.rule.severity == severity]
        for severity in ("fault", "sign")
    )
    found = [f"{kind}: {', '.join(names)}" for kind, names in (("faults", faults), ("signs", signs)) if names]
    return f"{report.rows:,} rows, {len(report.rules)} rules: {'; '.join(found) or 'nothing found'}"


def _dump_report(report: HealthReport) -> dict[str, Any]:
    return {
        "rows": report.rows,
        "healthy": not report.found,
        "faults": report.has_faults,
        "run": report.account.to_json(),
        "rules": [
            {
                "rule": findings.rule.name,
                "severity": findings.rule.severity,
                "words": findings.rule.words,
                "count": findings.count,
                "first": [asdict(finding) for finding in findings.first],
            }
            for findings in report.rules.values()
        ],
    }


main = COMMAND.entry_point(check_run)
