"""`ng_audit`: measure how often a verifier is wrong, by attempts whose right verdict is known."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from nemo_gym.cli.command import ExitCode, Keys, tell
from nemo_gym.cli.reverify import NOT_SET, PolicyFreeCommand

if TYPE_CHECKING:
    from nemo_gym.audit.card import Card
    from nemo_gym.audit.environment import EnvironmentAudit
    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.transport import Caller


class AuditKeys(Keys):
    folder: str | None = Field(
        None, description="A folder of tool tasks, or of folders of them, instead of a configuration."
    )
    input_jsonl_fpath: str | list[str] | None = Field(
        None, description="Task rows to probe; by default the datasets of the environment."
    )
    output_dirpath: str = Field(
        "results/audit", description="The folder for the card and the outcomes of all probes."
    )
    seed: int = Field(0, description="The seed of probes that are drawn. The card has it.")
    limit: int | None = Field(None, ge=1, description="Probe only the first tasks of each dataset.")
    max_probes: int | None = Field(None, ge=1, description="Begin no task after this many probes.")
    num_samples_in_parallel: int = Field(16, ge=1, description="Tasks that are probed at once.")
    dry_run: bool = Field(False, description="Tell how many probes there would be, and send none.")
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
    baseline = read_baseline(Path(keys.baseline)) if keys.baseline else None
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
    from nemo_gym.audit.environment import AuditSettings, EnvironmentAudit
    from nemo_gym.audit.gold_scripts import read_gold_scripts
    from nemo_gym.audit.task_rows import list_environments, read_rows
    from nemo_gym.rollouts.plan.dataset import locate

    found = list_environments(config)
    inputs = [keys.input_jsonl_fpath] if isinstance(keys.input_jsonl_fpath, str) else keys.input_jsonl_fpath
    audits = []
    for environment in found:
        files = [Path(path) for path in inputs or ()] or environment.files
        rows = read_rows(files, keys.limit)
        folder = Path(keys.output_dirpath)
        settings = AuditSettings(
            folder / environment.server if len(found) > 1 else folder,
            seed=keys.seed,
            resume=keys.resume_from_cache,
            max_probes=keys.max_probes,
            at_once=keys.num_samples_in_parallel,
            progress=_show_progress(),
        )
        scripts = [script for file in files for script in read_gold_scripts(locate(file))]
        lacks_judge = any(NOT_SET in str(config.data[model]) for model in environment.models)
        name = environment.server
        audits.append(EnvironmentAudit(name, name, rows, settings, scripts, lacks_judge))
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
    async with _running(audits, keys, config) as caller:
        for audit in audits:
            started.append((audit, *await audit.run(caller)))
    from nemo_gym.audit.behaviour import RESTARTED

    again = [each for each in started if each[2] and RESTARTED not in each[1].done]
    if again and keys.restart:
        with _other_surroundings():
            async with _running([audit for audit, *_ in again], keys, config) as caller:
                for audit, journal, known in again:
                    await audit.run_again(caller, journal, known)
    cards = []
    for audit, journal, _ in started:
        cards.append(audit.build_card(journal))
        journal.close()
    return cards


@asynccontextmanager
async def _running(
    audits: Sequence[EnvironmentAudit], keys: AuditKeys, config: GlobalConfig
) -> AsyncIterator[Caller]:
    """The servers that the audits need, and a caller of them."""
    from nemo_gym.launch.reporting import Reporter
    from nemo_gym.launch.serving import running
    from nemo_gym.rollouts.run.discovery import DiscoveredGym
    from nemo_gym.rollouts.run.required_servers import find_required_servers

    names = find_required_servers([audit.server for audit in audits], config.data)
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


@contextmanager
def _other_surroundings() -> Iterator[None]:
    """Let processes start with another time zone, locale and hash seed."""
    other = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "4242"}
    before = {name: os.environ.get(name) for name in other}
    os.environ.update(other)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


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
