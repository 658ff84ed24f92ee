"""`ng_failures`: the failures of a run, grouped by cause."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, print_notes, tell


class FailuresKeys(Keys):
    input_jsonl_fpath: str = Field(description="The run's file of scored rows.")
    as_json: bool = Field(False, alias="json", description="Print JSON.")


COMMAND = Command(
    name="ng_failures",
    summary="Show the failures of a run by cause: the place in the code, an example row, the remedy.",
    example="ng_failures +input_jsonl_fpath=results/rollouts.jsonl",
    keys=FailuresKeys,
)


def show_failures(keys: FailuresKeys) -> int:
    from nemo_gym.rollouts.lookback.stored import StoredRun
    from nemo_gym.rollouts.run.failure_groups import FailureGroups, failure_lines
    from nemo_gym.rows.verdict import is_scored
    from nemo_gym.viewer.finding import find_runs

    rows = Path(keys.input_jsonl_fpath)
    run = StoredRun(rows)
    account, failures = run.open_account(), FailureGroups()
    failed = {identity: run.failures.row(identity) for identity in run.list_failed()}
    absent = len(failed)
    for identity in run.scored:
        row = run.scored.row(identity)
        account.add(row)
        if not is_scored(row):
            failed[identity] = row
    for identity in sorted(failed):
        failures.note_row(identity, failed[identity])
    run.close()
    groups = failures.rank_groups()
    if keys.as_json:
        print(json.dumps([group.to_json() for group in groups], indent=2))
        for note in account.notes():
            tell(f"note: {note}")
        return ExitCode.COMPLETE
    print("\n".join(_counts(absent, len(failed) - absent)))
    if groups:
        (viewed,) = find_runs([rows])
        print("\n".join(failure_lines(groups, viewed.logs(), shown=None)))
    if absent:
        print(f"All attempts are in {run.files.failures}.")
    print_notes(account.notes())
    return ExitCode.COMPLETE


def _counts(absent: int, stored: int) -> Iterator[str]:
    """Yield the numbers of the failed rollouts: those without a row, and those whose row has no score."""
    if absent or not stored:
        failed = (
            "1 rollout failed and has no row"
            if absent == 1
            else f"{absent:,} rollouts failed and have no row"
        )
        yield failed if absent else "no rollout failed without a row"
    if stored:
        yield (
            "1 rollout failed and stands as a row without a score"
            if stored == 1
            else f"{stored:,} rollouts failed and stand as rows without a score"
        )


main = COMMAND.entry_point(show_failures)
