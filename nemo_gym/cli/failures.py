"""`ng_failures`: the failures of a run, grouped by cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys

if TYPE_CHECKING:
    from nemo_gym.metrics import FailedCalls


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
    for calls in _failed_tool_calls(run.files.rows):
        print(
            f"{calls.failed:,} tool calls of `{calls.call.tool}` failed in rows with a reward: {calls.call}"
        )
    return ExitCode.COMPLETE


def _failed_tool_calls(rows: Path) -> list[FailedCalls]:
    """Return the tool calls in scored rows that failed by the fault of an environment, by tool and cause."""
    from nemo_gym.metrics import ToolTally
    from nemo_gym.rollouts.plan.dataset import read_lines
    from nemo_gym.rows.tool_errors import may_have_tool_errors

    tally = ToolTally()
    for line in read_lines(rows) if rows.exists() else ():
        if may_have_tool_errors(line.content):  # few rows have it, and only they are parsed
            tally.add(json.loads(line.content))
    return tally.ranked()


main = COMMAND.entry_point(show_failures)
