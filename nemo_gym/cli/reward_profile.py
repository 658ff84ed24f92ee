"""`ng_reward_profile`: write the pass rate and rewards of each task of a run."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, print_notes


class ProfileKeys(Keys):
    input_jsonl_fpath: str = Field(description="The scored rows of a run, beside its other files.")
    output_jsonl_fpath: str = Field(description="The file to write, with one row per task.")
    pass_threshold: float = Field(1.0, description="The lowest reward that counts as passed.")
    min_pass_rate: float = Field(0.0, ge=0, le=1, description="The lowest pass rate of the tasks to write.")
    max_pass_rate: float = Field(1.0, ge=0, le=1, description="The highest pass rate of the tasks to write.")
    as_json: bool = Field(False, alias="json", description="Print the summary as JSON.")


COMMAND = Command(
    name="ng_reward_profile",
    summary="Write the pass rate and rewards of each task of a run, for a curriculum.",
    example="ng_reward_profile +input_jsonl_fpath=results/rollouts.jsonl "
    "+output_jsonl_fpath=results/profile.jsonl +min_pass_rate=0.1 +max_pass_rate=0.9",
    keys=ProfileKeys,
)


def profile(keys: ProfileKeys) -> int:
    from nemo_gym.rollouts.lookback.reward_profile import PassRates, write_profile
    from nemo_gym.rollouts.lookback.stored import StoredRun

    run = StoredRun(Path(keys.input_jsonl_fpath))
    output = Path(keys.output_jsonl_fpath)
    rates = PassRates(keys.min_pass_rate, keys.max_pass_rate)
    summary = write_profile(run, output, pass_threshold=keys.pass_threshold, rates=rates)
    run.close()
    if keys.as_json:
        print(json.dumps({**summary.to_json(), "output": str(output)}, indent=2))
        return ExitCode.COMPLETE
    tasks = f"{summary.tasks:,} tasks"
    if summary.further:
        tasks = f"{summary.tasks + summary.further:,} profiles: those of {tasks} by each of their agents"
    print(f"{output}: {summary.written:,} of {tasks}")
    print(
        f"passed always: {summary.always_passed:,}, sometimes: {summary.sometimes_passed:,}, "
        f"never: {summary.never_passed:,}, without a score: {summary.unscored:,}"
    )
    print_notes(summary.account.notes() if summary.account is not None else ())
    return ExitCode.COMPLETE


main = COMMAND.entry_point(profile)
