"""`ng_audit`: measure how often a verifier is wrong, by attempts whose right verdict is known."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import ExitCode, Keys, tell
from nemo_gym.cli.reverify import PolicyFreeCommand
from nemo_gym.failures import ConfigError

if TYPE_CHECKING:
    from nemo_gym.audit.card import Card
    from nemo_gym.config.loading import GlobalConfig


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

    baseline = read_baseline(Path(keys.baseline)) if keys.baseline else None
    if keys.folder is None:
        raise ConfigError("there is no folder to audit", code="nothing_to_audit", remedy="Write +folder=DIR.")
    card = _audit_folder(keys, Path(keys.folder))
    if card is None:
        return ExitCode.COMPLETE
    if keys.as_json:
        print(json.dumps(card.as_json(), indent=2))
    else:
        for line in card.write_text():
            print(line)
    failures = list_failures(card, fail_above=keys.fail_above, baseline=baseline)
    for failure in failures:
        tell(f"{COMMAND.shown_name}: {failure}")
    return ExitCode.FATAL if failures else ExitCode.COMPLETE


def _audit_folder(keys: AuditKeys, folder: Path) -> Card | None:
    """Audit tool tasks; None for a dry run."""
    import asyncio

    from nemo_gym.audit.tool_audit import audit_tool_tasks, count_least_probes
    from nemo_gym.sources.tool_tasks import read_tool_tasks

    tasks = read_tool_tasks(folder)[: keys.limit]
    if keys.dry_run:
        print(
            f"{len(tasks)} tool tasks, at least {count_least_probes(tasks)} runs of scripts; no model is called"
        )
        return None
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
