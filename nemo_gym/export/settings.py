"""The settings of an export, which are the keys of `ng_export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from nemo_gym.failures import Outcome


def _listify(paths: object) -> object:
    return [paths] if isinstance(paths, str | Path) else paths


class ExportSettings(BaseModel, extra="forbid", populate_by_name=True, frozen=True):
    """The settings of an export. Bounds are inclusive."""

    format: str = Field(
        description="sft, dpo, kto, grpo, nemo_rl, verl, agent_tunix, prime_rl, sharegpt, openai, openenv, atif or "
        "inspect: "
        "docs/export.md."
    )
    inputs: Annotated[list[Path], BeforeValidator(_listify)] = Field(
        alias="input", description="Files of scored rows, optionally .gz or .zst; one or several."
    )
    output: Path = Field(description="The file to write: .jsonl, .jsonl.gz, .jsonl.zst or .parquet.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="The format's own options: +options.margin=0.2."
    )
    outcomes: list[Outcome] | None = Field(
        None, description="completed, truncated or both; the default depends on the format."
    )
    environments: list[str] = Field(
        default_factory=list, description="Agents whose rollouts to export; * and ? are wildcards."
    )
    min_reward: float | None = Field(
        None,
        description="The lowest reward to export; by default 1 for supervised formats without `max_reward`, any for "
        "the others.",
    )
    max_reward: float | None = Field(None, description="The highest reward to export.")
    min_output_tokens: int | None = Field(
        None, ge=0, description="The lowest number of tokens that the policy generated."
    )
    max_output_tokens: int | None = Field(
        None, ge=0, description="The highest number of tokens that the policy generated."
    )
    allow_tamperable: bool = Field(
        False,
        description="Export rollouts whose answers ran beside their tests and could have forged the reward.",
    )
    merge_equal_rows: bool | None = Field(
        None, alias="deduplicate", description="Write equal rows once; the default depends on the format."
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
