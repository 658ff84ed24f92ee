"""`ng_audit`: measure how often a verifier is wrong, by attempts whose right verdict is known."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from nemo_gym.cli.command import ExitCode, Keys, tell
from nemo_gym.cli.reverify import NOT_SET, PolicyFreeCommand
from nemo_gym.failures import ConfigError

if TYPE_CHECKING:
    from nemo_gym.audit.card import Card
    from nemo_gym.audit.environment import EnvironmentAudit
    from nemo_gym.audit.rollout_audit import RolloutReport
    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.transport import Caller

VERIFIED_AGAIN = 200
"""Rollouts that are verified a second time."""


class AuditKeys(Keys):
    folder: str | None = Field(
        None, description="A folder of tool tasks, or of folders of them, instead of a configuration."
    )
    rollouts: str | None = Field(
        None,
        description="Scored rows of a run, in which to look for signs of hacking. With an environment they are also "
        "verified a second time.",
    )
    label: str | None = Field(
        None, description="With `rollouts`: the member of a row that is true for a right answer."
    )
    input_jsonl_fpath: str | list[str] | None = Field(
        None, description="Task rows to probe; by default the datasets of the environment."
    )
    gold_rollouts: str | None = Field(
        None, description="Scored rows of a run: those with a reward of 1 are right attempts at their tasks."
    )
    output_dirpath: str = Field(
        "results/audit", description="The folder for the card and the outcomes of all probes."
    )
    seed: int = Field(0, description="The seed of probes that are drawn. The card has it.")
    limit: int | None = Field(None, ge=1, description="Probe only the first tasks of each dataset.")
    max_probes: int | None = Field(None, ge=1, description="Begin no task after this many probes.")
    num_samples_in_parallel: int = Field(16, ge=1, description="Tasks that are probed at once.")
    dry_run: bool = Field(False, description="Tell how many probes there would be, and send none.")
    adversary: bool = Field(
        False,
        description="Also let scripts, and the policy model where one is named, use the tools to be rewarded without "
        "doing the task. Rewarded attempts are kept in exploits.jsonl.",
    )
    resume_from_cache: bool = Field(False, description="Continue the audit in the folder.")
    restart: bool = Field(
        True, description="Start the servers a second time, with another time zone, locale and hash seed."
    )
    placement: Literal["process", "inline"] = Field(
        "process", description="Run each server in its own process, or all of them in this one."
    )
    fail_above: float | None = Field(
        None, ge=0, le=1, description="Exit with 1 if a class of probes has a higher error rate."
    )
    baseline: str | None = Field(
        None,
        description="The card (JSON) of an earlier audit. Exit with 1 if a class has a higher error rate.",
    )
    as_json: bool = Field(False, alias="json", description="Print the card as JSON.")


COMMAND = PolicyFreeCommand(
    name="ng_audit",
    summary="Measure how often a verifier is wrong, by attempts whose right verdict is known.",
    example="ng_audit +folder=tool_tasks +seed=7",
    keys=AuditKeys,
)


def audit(keys: AuditKeys, config: GlobalConfig) -> int:
    from nemo_gym.audit.comparison import list_failures, read_baseline

    if keys.dry_run:
        return _count(keys, config)
    if keys.label and not keys.rollouts:
        raise ConfigError(
            "label: labels are of rollouts, and no file of them is named",
            code="no_rollouts",
            remedy="Name the scored rows of a run: +rollouts=FILE (gym: audit FILE --label KEY).",
        )
    if keys.rollouts:
        return _audit_rollouts(keys, config)
    baseline = read_baseline(Path(keys.baseline)) if keys.baseline else None
    with redirect_stdout(sys.stderr):  # the words of servers in this process are no part of a card
        cards = [_audit_folder(keys, Path(keys.folder))] if keys.folder else _audit_environments(keys, config)
    failures = []
    for card in cards:
        if keys.as_json:
            print(json.dumps(card.as_json(), indent=2))
        else:
            for line in card.write_text():
                print(line)
        failures += list_failures(card, fail_above=keys.fail_above, baseline=baseline)
    for failure in failures:
        tell(f"{COMMAND.shown_name}: {failure}")
    return ExitCode.FATAL if failures else ExitCode.COMPLETE


def _audit_rollouts(keys: AuditKeys, config: GlobalConfig) -> int:
    """Print the signs of hacking in the rows of a run."""
    from nemo_gym.audit.rollout_audit import read_rollouts

    assert keys.rollouts is not None
    report = read_rollouts(Path(keys.rollouts), label=keys.label)
    if any(server.kind == "resources_servers" for server in config.servers):
        from nemo_gym.cli.collect_rollouts import run_in_loop

        run_in_loop(_verify_again(report, keys, config))
    if keys.as_json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        print("\n".join(report.write_text()))
    return ExitCode.COMPLETE


async def _verify_again(report: RolloutReport, keys: AuditKeys, config: GlobalConfig) -> None:
    from nemo_gym.audit.environment import open_prober
    from nemo_gym.audit.rollout_audit import verify_again
    from nemo_gym.audit.task_rows import list_environments

    environments = [environment.server for environment in list_environments(config)]
    if len(environments) > 1:
        raise ConfigError(
            f"rollouts: the configuration has {len(environments)} environments",
            code="many_environments",
            remedy="Name the one that scored these rollouts.",
        )
    async with _running(environments, keys, config) as caller:
        prober = await open_prober(caller, environments[0])
        if prober.seeds:
            report.notes.append(
                f"{environments[0]} does not declare that it verifies without a session: nothing is verified again."
            )
        else:
            await verify_again(report, prober, most=keys.max_probes or VERIFIED_AGAIN)


def _audit_folder(keys: AuditKeys, folder: Path) -> Card:
    import asyncio

    from nemo_gym.audit.tool_audit import audit_tool_tasks
    from nemo_gym.sources.tool_tasks import read_tool_tasks

    tasks = read_tool_tasks(folder)[: keys.limit]
    return asyncio.run(
        audit_tool_tasks(
            folder.resolve().name,
            tasks,
            Path(keys.output_dirpath),
            seed=keys.seed,
            resume=keys.resume_from_cache,
            max_probes=keys.max_probes,
            progress=_show_progress(),
        )
    )


def _count(keys: AuditKeys, config: GlobalConfig) -> int:
    """Print how many probes there would be."""
    if keys.folder:
        from nemo_gym.audit.tool_audit import count_least_probes
        from nemo_gym.sources.tool_tasks import read_tool_tasks

        tasks = read_tool_tasks(Path(keys.folder))[: keys.limit]
        print(
            f"{len(tasks)} tool tasks, at least {count_least_probes(tasks)} runs of scripts; no model is called"
        )
        return ExitCode.COMPLETE
    for each in plan_audits(keys, config):
        print(f"{each.name}: {len(each.rows)} tasks, about {each.count_probes():,} attempts at {each.server}")
    return ExitCode.COMPLETE


def plan_audits(keys: AuditKeys, config: GlobalConfig) -> list[EnvironmentAudit]:
    """Return the audit of each environment in the configuration. Raises `ConfigError` if there is none."""
    from nemo_gym.audit.dataset_facts import DatasetFacts
    from nemo_gym.audit.environment import AuditSettings, EnvironmentAudit
    from nemo_gym.audit.gold_scripts import read_gold_rollouts, read_gold_scripts
    from nemo_gym.audit.task_rows import list_environments, read_rows
    from nemo_gym.rollouts.plan.dataset import locate

    found = list_environments(config)
    inputs = [keys.input_jsonl_fpath] if isinstance(keys.input_jsonl_fpath, str) else keys.input_jsonl_fpath
    audits = []
    for environment in found:
        files = [Path(path) for path in inputs or ()] or environment.files
        facts = DatasetFacts()
        rows = read_rows(files, keys.limit, facts)
        folder = Path(keys.output_dirpath)
        settings = AuditSettings(
            folder / environment.server if len(found) > 1 else folder,
            seed=keys.seed,
            resume=keys.resume_from_cache,
            max_probes=keys.max_probes,
            at_once=keys.num_samples_in_parallel,
            adversary=keys.adversary,
            progress=_show_progress(),
        )
        scripts = [script for file in files for script in read_gold_scripts(locate(file))]
        scripts += read_gold_rollouts(Path(keys.gold_rollouts)) if keys.gold_rollouts else []
        lacks_judge = any(NOT_SET in str(config.data[model]) for model in environment.models)
        name = environment.server
        has_policy = keys.adversary and NOT_SET not in str(config.data["policy_model"])
        agent = environment.agent if has_policy else None
        audits.append(
            EnvironmentAudit(
                name, name, rows, settings, scripts, agent, facts, environment.models, lacks_judge
            )
        )
    return audits


def _audit_environments(keys: AuditKeys, config: GlobalConfig) -> list[Card]:
    from nemo_gym.cli.collect_rollouts import run_in_loop

    audits = plan_audits(keys, config)
    return run_in_loop(_run_audits(audits, keys, config))


async def _run_audits(
    audits: Sequence[EnvironmentAudit], keys: AuditKeys, config: GlobalConfig
) -> list[Card]:
    """Start the servers, probe them, start them again in other surroundings, and compare."""
    started = []
    async with _running([audit.agent or audit.server for audit in audits], keys, config) as caller:
        for audit in audits:
            started.append((audit, *await audit.run(caller)))
    from nemo_gym.audit.behaviour import RESTARTED
    from nemo_gym.audit.surroundings import change_surroundings, note_clock

    again = [each for each in started if each[2] and RESTARTED not in each[1].done]
    if again and keys.restart:
        with change_surroundings():
            async with _running([audit.server for audit, *_ in again], keys, config) as caller:
                for audit, journal, known in again:
                    await audit.run_again(caller, journal, known)
                    audit.notes.append(note_clock())
    cards = []
    for audit, journal, _ in started:
        cards.append(audit.build_card(journal))
        journal.close()
    return cards


@asynccontextmanager
async def _running(
    environments: Sequence[str], keys: AuditKeys, config: GlobalConfig
) -> AsyncIterator[Caller]:
    """The servers that the environments need, and a caller of them."""
    from nemo_gym.launch.reporting import Reporter
    from nemo_gym.launch.serving import running
    from nemo_gym.rollouts.run.discovery import DiscoveredGym
    from nemo_gym.rollouts.run.required_servers import find_required_servers

    names = find_required_servers(environments, config.data)
    part = replace(
        config,
        servers=tuple(server for server in config.servers if server.name in names),
        code_runners=tuple(name for name in config.code_runners if name in names),
    )
    reporter = Reporter(lambda: sys.stderr)
    async with running(
        part, reporter, began=time.monotonic(), fork_server=None, placement=keys.placement
    ) as placed:
        await placed.wait_ready()
        caller = DiscoveredGym(placed.config, placed.token, placed.transport).caller()
        try:
            yield caller
        finally:
            if placed.transport is None:
                await caller.transport.close()


def _show_progress() -> Callable[[int, int], None]:
    """Return what shows the progress on a terminal, in place, and in a log, for each tenth."""
    is_terminal = sys.stderr.isatty()
    shown = -1

    def show(done: int, of: int) -> None:
        nonlocal shown
        tenth = done * 10 // of
        if is_terminal:
            print(f"\r{done:,} of {of:,} tasks", end="\n" if done == of else "", file=sys.stderr, flush=True)
        elif tenth != shown:
            shown = tenth
            print(f"{done:,} of {of:,} tasks", file=sys.stderr, flush=True)

    return show


main = COMMAND.entry_point(audit)
