"""Figures of a run: the table by cause, the comparison with the figures kept in the repository, and the page."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.ecosystem_wheel import wheel
from tests.ecosystem_wheel.stages import Finding

KEPT = Path(__file__).with_name("figures.json")
PAGE = wheel.REPOSITORY / "docs" / "compatibility.md"

TITLES = {
    "imports": "`app.py` that import",
    "configurations": "configurations accepted",
    "refusals": "configurations accepted that the ecosystem's own core accepts too",
    "tests": "environment folders whose own tests pass",
    **{f"tests {version}": f"folders of {version} whose own tests pass" for version in wheel.OLDER},
    "agents": "agents that answer a rollout",
    "rewards": "environments whose stored rollouts get their stored rewards by `ng_reverify`",
    "audits": "environments with a card of `gym audit`",
    "runs": "environments collected by `gym eval run` and by `ng_e2e_collect_rollouts`",
}
LEFT_OUT = {
    "`nemo_gym.gitlab_utils`": "it downloads from a private MLflow registry, so `benchmarks/lmarena_v2` and `_v3` "
    "cannot be prepared",
    "`perf_summary` of aggregate metrics": "no folder reads it; `_ng_timing` of the rows has the seconds",
    "`_ng_environment_server` of rows": "no folder reads it; `agent_ref` of a row names the environment server",
    "`_attach_trajectory_record`, `_attach_ng_perf`, `_CaptureMiddleware`, `token_id_capture.staging`": "private; "
    "tests, `benchmarks/terminal_bench_4/smoke.py` and the stages of gdpval import them",
}
"""Names of the ecosystem that are left out, and the reasons."""
_SHOWN = 12
"""Causes that the terminal shows for each stage."""


def figures_of(stage: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the figures of a stage as JSON: counts, the causes, and the items of each."""
    red = [finding for finding in findings if not finding.is_green]
    figures: dict[str, Any] = {
        "total": len(findings),
        "green": len(findings) - len(red),
        "causes": _by_cause(red),
    }
    if stage in ("configurations", "refusals"):
        figures["are_options_checked"] = os.environ.get("OPTIONS") != "0"
    if stage == "tests":
        figures["tests_passed"] = sum(finding.tests_passed for finding in findings)
    return figures


def _by_cause(red: Iterable[Finding]) -> dict[str, list[str]]:
    items: dict[str, list[str]] = {}
    for finding in red:
        for cause in finding.causes:
            items.setdefault(str(cause), []).append(finding.item)
    return dict(sorted(items.items(), key=lambda pair: (-len(pair[1]), pair[0])))


def text_of(stage: str, figures: Mapping[str, Any]) -> str:
    """Return the table of a stage for the terminal: the most frequent causes with their first items."""
    lines = [f"{TITLES[stage]}: {figures['green']} of {figures['total']}"]
    if "tests_passed" in figures:
        lines.append(f"  {figures['tests_passed']} tests passed")
    shown = list(figures["causes"].items())
    lines += [f"  {len(items):4}  {cause}  ({items[0]})" for cause, items in shown[:_SHOWN]]
    if len(shown) > _SHOWN:
        lines.append(
            f"        and {len(shown) - _SHOWN} other causes, in {PAGE.relative_to(wheel.REPOSITORY)}"
        )
    return "\n".join(lines)


def kept() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
    return figures


def fallen(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a line for each stage that has fewer green items than the kept figures."""
    return [
        f"{TITLES[stage]}: {now[stage]['green']}, and {before[stage]['green']} are kept"
        for stage in now
        if stage in before and now[stage]["green"] < before[stage]["green"]
    ]


def keep(figures: Mapping[str, Any]) -> None:
    """Write the figures and the page."""
    KEPT.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page_of(figures), encoding="utf-8")


def page_of(figures: Mapping[str, Any]) -> str:
    """Return `docs/compatibility.md`."""
    head = [
        "# Compatibility with the ecosystem",
        "",
        f"Environments, agents and models of `nemo-gym=={wheel.NEWEST}` from the package registry, beside this",
        "repository's `nemo_gym`. `make test-ecosystem KEEP=1` measures it and writes this page; `STAGE=imports`,",
        "`STAGE=configurations`, `STAGE=refusals`, `STAGE=tests`, `STAGE=agents`, `STAGE=runs` and `STAGE=rewards` run",
        "one stage. `STAGE=tests VERSION=0.5.1` runs the folders of that version. `FOLDERS=word,word` runs a sample of",
        "the tests, agents, runs or rewards.",
        "The agents collect one rollout each with the engine stub; the environment `acereason-math`",
        "of `verifiers_agent`, which the package registry lacks, is a stand-in.",
        "Configurations are loaded with the values that a user gives: the policy, `run_token`, the environment",
        "variables that they name without a default, and a text for each top-level key that is null.",
        "There is no network, so a folder that loads a model or a dataset from a hub is red.",
        "",
        "| | green | of |",
        "|---|---|---|",
    ]
    rows = [
        f"| {TITLES[stage]} | {figures[stage]['green']} | {figures[stage]['total']} |"
        for stage in TITLES
        if stage in figures
    ]
    rows += [
        f"| tests passed ({stage.removeprefix('tests').strip() or wheel.NEWEST}) | {figures[stage]['tests_passed']} | |"
        for stage in figures
        if "tests_passed" in figures[stage]
    ]
    if "configurations" in figures and not figures["configurations"]["are_options_checked"]:
        rows += ["", "The configurations were loaded without the options of servers (`OPTIONS=0`)."]
    left_out = [
        "",
        "## Names that are left out",
        "",
        *(f"- {name}: {why}." for name, why in LEFT_OUT.items()),
    ]
    sections = [line for stage in TITLES if stage in figures for line in _section(stage, figures[stage])]
    return "\n".join([*head, *rows, *left_out, *sections]) + "\n"


def _section(stage: str, figures: Mapping[str, Any]) -> list[str]:
    causes = figures["causes"]
    by_class = Counter(cause.partition(":")[0] for cause, items in causes.items() for _ in items)
    note = ["", figures["note"]] if "note" in figures else []
    lines = [
        "",
        f"## Not among the {TITLES[stage]}",
        *note,
        "",
        "| items | cause | examples |",
        "|---|---|---|",
    ]
    lines += [f"| {count} | {name} (all) | |" for name, count in by_class.most_common()]
    for cause, items in causes.items():
        shown = ", ".join(f"`{item}`" for item in items[:3])
        lines.append(f"| {len(items)} | {_cell(cause)} | {shown}{', …' if len(items) > 3 else ''} |")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
