"""`ng_export`: convert scored rollouts to the format of a trainer."""

from __future__ import annotations

import json

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode
from nemo_gym.config.spelling import spell_keys
from nemo_gym.export.settings import ExportSettings


class ExportKeys(ExportSettings):
    as_json: bool = Field(False, alias="json", description="Print the report as JSON.")


COMMAND = Command(
    name="ng_export",
    summary="Convert scored rollouts to the format of a trainer.",
    example="ng_export +format=sft +input=results/rollouts.jsonl +output=data/sft.jsonl +min_reward=1",
    keys=ExportKeys,
    exit_codes={
        ExitCode.COMPLETE: "complete",
        ExitCode.BAD_INPUT: "wrong usage, or an unusable file",
        ExitCode.PARTIAL: "no rollout was exported",
    },
)


def export(keys: ExportKeys) -> int:
    from nemo_gym.export.exporting import export as write
    from nemo_gym.tables import fold_text, terminal_width

    report = write(keys)
    lines = fold_text(spell_keys("\n".join(report.lines())), terminal_width())
    print(json.dumps(report.to_json(), indent=2) if keys.as_json else lines)
    return ExitCode.COMPLETE if report.exported else ExitCode.PARTIAL


main = COMMAND.entry_point(export)
