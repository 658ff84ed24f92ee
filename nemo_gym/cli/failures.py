"""`ng_failures`: the failures of a run, grouped by cause."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


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
    from nemo_gym.viewer.runs import find_runs

    rows = Path(keys.input_jsonl_fpath)
    run = StoredRun(rows)
    failures = FailureGroups()
    for identity in sorted(run.failed()):
        failures.note_row(identity, run.failures.row(identity))
    run.close()
    groups = failures.ranked()
    if keys.as_json:
        print(json.dumps([group.to_json() for group in groups], indent=2))
        return ExitCode.COMPLETE
    count = sum(group.count for group in groups)
    failed = "1 rollout failed and has no row" if count == 1 else f"{count:,} rollouts failed and have no row"
    print(failed if count else "no rollout failed without a row")
    if groups:
        (viewed,) = find_runs([rows])
        print("\n".join(failure_lines(groups, viewed.logs(), shown=None)))
        print(f"All attempts are in {run.files.failures}.")
    return ExitCode.COMPLETE


main = COMMAND.entry_point(show_failures)
