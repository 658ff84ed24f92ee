"""`ng_export`: convert scored rollouts to the format of a trainer."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys
from nemo_gym.failures import Outcome

if TYPE_CHECKING:
    from nemo_gym.export.exporting import ExportSettings
    from nemo_gym.export.report import Report


class ExportKeys(Keys):
    format: str = Field(
        description="sft, dpo, kto, grpo, nemo_rl, verl, agent_tunix, prime_rl, sharegpt or openai: docs/export.md."
    )
    input: str | list[str] = Field(description="Files of scored rows, optionally .gz or .zst.")
    output: str = Field(description="The file to write: .jsonl, .jsonl.gz, .jsonl.zst or .parquet.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="The format's own options: +options.margin=0.2."
    )
    outcomes: list[Outcome] | None = Field(
        None, description="completed, truncated or both; the default depends on the format."
    )
    environments: list[str] = Field(
        default_factory=list, description="Agents whose rollouts to export; * and ? are wildcards."
    )
    min_reward: float | None = Field(None, description="The lowest reward to export.")
    max_reward: float | None = Field(None, description="The highest reward to export.")
    min_output_tokens: int | None = Field(
        None, ge=0, description="The lowest number of tokens that the policy generated."
    )
    max_output_tokens: int | None = Field(
        None, ge=0, description="The highest number of tokens that the policy generated."
    )
    deduplicate: bool | None = Field(
        None, description="Write equal rows once; the default depends on the format."
    )
    splits: dict[str, float] = Field(
        default_factory=dict,
        description="Fractions by name, each in its own file: +splits={train:0.9,validation:0.1}.",
    )
    split_by: Literal["prompt", "task"] = Field(
        "prompt",
        description="The key of a task's split: its prompt, or its number if all tasks share one prompt.",
    )
    overwrite: bool = Field(False, description="Replace existing files.")
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

    report = write(settings_of(keys))
    print(json.dumps(report.to_json(), indent=2) if keys.as_json else _text(report))
    return ExitCode.COMPLETE if report.exported else ExitCode.PARTIAL


def settings_of(keys: ExportKeys) -> ExportSettings:
    from nemo_gym.export.exporting import ExportSettings

    inputs = keys.input if isinstance(keys.input, list) else [keys.input]
    return ExportSettings(
        format=keys.format,
        inputs=tuple(map(Path, inputs)),
        output=Path(keys.output),
        options=keys.options,
        outcomes=frozenset(keys.outcomes) if keys.outcomes is not None else None,
        environments=tuple(keys.environments),
        min_reward=keys.min_reward,
        max_reward=keys.max_reward,
        min_output_tokens=keys.min_output_tokens,
        max_output_tokens=keys.max_output_tokens,
        merge_equal_rows=keys.deduplicate,
        splits=keys.splits,
        split_by=keys.split_by,
        overwrite=keys.overwrite,
    )


def _text(report: Report) -> str:
    return "\n".join(report.lines())


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(COMMAND.run(argv, export))
