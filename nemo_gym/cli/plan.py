"""`ng_plan`: the smallest difference that a run can show, and the repeats that a difference or a width needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, print_folded


class PlanKeys(Keys):
    run: str | None = Field(
        None,
        description="The scored rows of an earlier run with two repeats or more, for the spread of rewards.",
    )
    against: str | None = Field(
        None, description="The scored rows of another model on the same tasks, for the spread of differences."
    )
    tasks: int | None = Field(None, ge=1, description="The number of tasks; by default that of `run`.")
    repeats: int = Field(1, ge=1, description="Rollouts of each task.")
    rate: float = Field(
        0.5, gt=0, lt=1, description="Without `run`: the mean reward to assume, for rewards of 0 and 1."
    )
    difference: float | None = Field(None, gt=0, lt=1, description="The difference of two models to find.")
    width: float | None = Field(None, gt=0, lt=0.5, description="The half-width of a mean's 95 % interval.")
    power: float = Field(
        0.8, gt=0.05, lt=1, description="The probability with which the difference is found."
    )
    generalize: bool = Field(False, description="The mean of all tasks like these, instead of these.")
    as_json: bool = Field(False, alias="json", description="Print JSON.")


COMMAND = Command(
    name="ng_plan",
    summary="Tell the smallest difference that a run can show, and what a difference or a width costs.",
    example="ng_plan +run=results/rollouts.jsonl +repeats=4 +difference=0.02",
    keys=PlanKeys,
)


def plan(keys: PlanKeys) -> int:
    from nemo_gym.rollouts.lookback.run_plan import describe_plan, make_plan

    made = make_plan(
        run=Path(keys.run) if keys.run else None,
        against=Path(keys.against) if keys.against else None,
        tasks=keys.tasks,
        repeats=keys.repeats,
        rate=keys.rate,
        difference=keys.difference,
        width=keys.width,
        power=keys.power,
        generalizes=keys.generalize,
    )
    if keys.as_json:
        print(json.dumps(asdict(made), indent=2))
    else:
        for line in describe_plan(made):
            print_folded(line)
    return ExitCode.COMPLETE


main = COMMAND.entry_point(plan)
