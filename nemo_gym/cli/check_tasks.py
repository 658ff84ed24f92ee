"""`ng_check_tasks`: check task folders, with their solutions and with nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nemo_gym.cli.command import EXIT_CODES, Command, ExitCode, Keys, print_folded, several
from nemo_gym.sources.task_folders.lint.findings import DEFAULT_RULES, LintRule
from nemo_gym.sources.task_folders.requirements import Limit

if TYPE_CHECKING:
    from nemo_gym.sources.task_folders.checking import FolderCheck


class CheckTasksKeys(Keys):
    folder: str = Field(description="A task folder, a folder of them, or a `dataset.toml`.")
    no_run: bool = Field(False, description="Only load and lint; start no sandbox.")
    repeats: int = Field(2, ge=1, description="Trials of the solution and of nothing.")
    network: str | None = Field(
        None, description="`none` to accept tasks that ask for a network, without one."
    )
    sandbox_provider: str = Field("rootless", description="The provider of the sandboxes.")
    task_variables: str | list[str] = Field([], description="Variables of this machine that tasks may read.")
    unlimited: list[Limit] = Field(
        [], description="Limits that tasks run without, where the provider cannot enforce them."
    )
    build_network: bool = Field(False, description="Let the RUN lines of images use the network.")
    store: str | None = Field(
        None, description="The folder of images, by default one for all gyms of this user."
    )
    readable: str | list[str] = Field(
        [], description="Folders of this machine that sandboxes show read-only."
    )
    select: LintRule | list[LintRule] = Field(
        [], description="Rules of the linter, by default all but root-agent and unpinned-image."
    )
    as_json: bool = Field(False, alias="json", description="Print JSON.")


COMMAND = Command(
    name="ng_check_tasks",
    summary="Check task folders: the loader, the linter, and the rewards of the solution and of nothing.",
    example="ng_check_tasks +folder=tasks +no_run=true",
    keys=CheckTasksKeys,
    exit_codes={**EXIT_CODES, ExitCode.FATAL: "failed, or a folder is wrong"},
)


def check(keys: CheckTasksKeys) -> int:
    from nemo_gym.sources.task_folders.requirements import Terms, check_provider

    check_provider(keys.sandbox_provider)
    variables = frozenset(several(keys.task_variables))
    terms = Terms(keys.sandbox_provider, keys.network, variables, unlimited=frozenset(keys.unlimited))
    checks = asyncio.run(_check_all(keys, terms))
    if keys.as_json:
        print(json.dumps([_dump(each) for each in checks], indent=2))
    else:
        print_folded("\n".join(_describe(checks)))
    return ExitCode.COMPLETE if all(each.is_right for each in checks) else ExitCode.FATAL


async def _check_all(keys: CheckTasksKeys, terms: Any) -> list[FolderCheck]:
    from nemo_gym.sources.task_folders.checking import check_folders
    from nemo_gym.sources.task_folders.dataset import find_tasks

    dataset = find_tasks(Path(keys.folder))
    rules = (keys.select if isinstance(keys.select, list) else [keys.select]) or DEFAULT_RULES
    checks = []
    async for each in check_folders(dataset, terms, _build_sandboxes(keys), rules, keys.repeats):
        checks.append(each)
        if sys.stderr.isatty():
            print(f"\r{len(checks)}/{len(dataset.folders)} {each.name[:50]:<50}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return checks


def _build_sandboxes(keys: CheckTasksKeys) -> Any:
    if keys.no_run:
        return None
    from nemo_gym.sandbox.availability import require_provider
    from nemo_gym.sandbox.providers.registry import create_provider
    from nemo_gym.sources.task_folders.sandboxes import Sandboxes

    options = {"store": keys.store} if keys.store is not None else {}
    require_provider({keys.sandbox_provider: options})
    provider = create_provider({keys.sandbox_provider: options})
    return Sandboxes(provider, keys.build_network, readable=several(keys.readable), unlimited=keys.unlimited)


def _describe(checks: list[FolderCheck]) -> Iterator[str]:
    for each in checks:
        rewards = ", ".join(f"{play} {found[0]:g}" for play, found in each.rewards.items())
        if each.problems or len(checks) == 1:
            yield f"{'ok' if each.is_right else 'WRONG':<6}{each.name}{f' ({rewards})' if rewards else ''}"
        yield from (f"      {problem}" for problem in each.problems)
        if len(checks) == 1:
            yield from (f"      {remark}" for remark in each.remarks)
            yield from (f"      lint: {finding.describe(each.root)}" for finding in each.findings)
    wrong = Counter(problem.split(":", 1)[0] for each in checks for problem in each.problems)
    rules = Counter(finding.rule.value for each in checks for finding in each.findings)
    remarks = Counter(remark.split(":", 1)[0] for each in checks for remark in each.remarks)
    yield f"{sum(each.is_right for each in checks):,} of {len(checks):,} folders are right"
    for title, counted in (("wrong", wrong), ("remarks", remarks), ("lint", rules)):
        if counted:
            yield f"{title}: " + ", ".join(f"{count} {name}" for name, count in counted.most_common())
    if len(checks) > 1 and (remarks or rules):
        first = next(each for each in checks if each.remarks or each.findings)
        yield f"details of one folder: gym dataset validate {first.root}"


def _dump(check: FolderCheck) -> dict[str, Any]:
    findings = [
        {"rule": each.rule, "path": str(each.path), "line": each.line, "message": each.message}
        for each in check.findings
    ]
    found = {"problems": check.problems, "remarks": check.remarks, "rewards": check.rewards}
    return {"name": check.name, **found, "findings": findings}


main = COMMAND.entry_point(check)
