"""`ng_tasks`: show which tasks tell models apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, print_folded

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.telling_tasks import TellingTasks

_SHOWN = 5


class TasksKeys(Keys):
    runs: str | list[str] = Field(description="The scored rows of the models' runs, on the same tasks.")
    score: str | None = Field(None, description="The number of a row, from 0 to 1; by default the reward.")
    output_jsonl_fpath: str | None = Field(None, description="A file for the figures of each task.")
    as_json: bool = Field(False, alias="json", description="Print JSON.")


COMMAND = Command(
    name="ng_tasks",
    summary="Show how hard tasks are, which tell models apart, and a smaller set that ranks models the same.",
    example="ng_tasks +runs=[results/small.jsonl,results/large.jsonl] +output_jsonl_fpath=tasks.jsonl",
    keys=TasksKeys,
)


def show_tasks(keys: TasksKeys) -> int:
    from nemo_gym.cli.command import several
    from nemo_gym.rollouts.lookback.telling_tasks import find_telling_tasks
    from nemo_gym.rollouts.output.atomic import write_atomically
    from nemo_gym.rollouts.output.inputs import refuse_inputs

    paths = [Path(path) for path in several(keys.runs)]
    if keys.output_jsonl_fpath is not None:
        refuse_inputs([Path(keys.output_jsonl_fpath)], paths)
    found = find_telling_tasks(paths, score=keys.score)
    if keys.output_jsonl_fpath is not None:
        lines = (json.dumps(task.as_json()).encode() + b"\n" for task in found.tasks)
        write_atomically(Path(keys.output_jsonl_fpath), lines)
    if keys.as_json:
        print(json.dumps(_document(found), indent=2))
    else:
        for line in _describe(found):
            print_folded(line)
    return ExitCode.COMPLETE


def _document(found: TellingTasks) -> dict[str, object]:
    smaller = found.smaller
    return {
        "models": found.models,
        "kinds": found.count_kinds(),
        "tasks": [task.as_json() for task in found.tasks],
        "smaller_set": {
            "tasks": [found.tasks[place].index for place in smaller.tasks],
            "agreement": smaller.agreement,
            "agreement_interval": smaller.agreement_interval,
        }
        if smaller
        else None,
        "notes": found.notes,
    }


def _describe(found: TellingTasks) -> Iterator[str]:
    models = len(found.models)
    yield f"{len(found.tasks):,} tasks, {models} {'model' if models == 1 else 'models'}: {', '.join(found.models)}"
    for kind, count in found.count_kinds().items():
        tasks = [task for task in found.tasks if task.information.kind is kind]
        named = ", ".join(str(task.index) for task in tasks[:_SHOWN]) + (", …" if count > _SHOWN else "")
        yield f"{kind.value:<14}{count:>6,}{f'  tasks {named}' if count else ''}"
    if models < 4:
        yield "Discrimination has an interval from four models on: until then no task is telling or contradictory."
    if found.smaller is not None:
        low, high = found.smaller.agreement_interval
        indices = ", ".join(str(found.tasks[place].index) for place in found.smaller.tasks[: 2 * _SHOWN])
        yield (
            f"{len(found.smaller.tasks):,} tasks rank the models as all do in {found.smaller.agreement:.0%} of "
            f"resampled runs ({low:.0%} to {high:.0%}): {indices}, …"
        )
        yield (
            "They were chosen on these runs, which they fit better than others, and models that do not differ have no "
            "rank to keep: check the set with runs of other models."
        )
    elif models > 1 and found.has_equal_models:
        yield "Each task has the same score of all models, so no set of tasks ranks them."
    elif models > 1:
        yield "No smaller set ranks the models the same in nine of ten resampled runs."
    yield from (f"note: {note}" for note in found.notes)


main = COMMAND.entry_point(show_tasks)
