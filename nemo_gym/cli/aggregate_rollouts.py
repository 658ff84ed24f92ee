"""`ng_aggregate_rollouts`: merge the shards of a run."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, print_notes, several
from nemo_gym.failures import ConfigError
from nemo_gym.tables import write_number

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.merging import Merged


class AggregateKeys(Keys):
    input_jsonl_fpath: str | list[str] = Field(
        description="The scored rows of the shards, as files or patterns; a shard's other files are in its folder."
    )
    output_jsonl_fpath: str = Field(
        description="The file for all rows; compressed if it ends in .jsonl.gz or .jsonl.zst."
    )
    renumber: bool = Field(
        False,
        description="Match tasks by their content, for shards that each number theirs from 0: equal tasks are one task "
        "with the repeats of all shards, and other tasks get new numbers.",
    )
    count_failure_classes_as_zero: list[str] = Field(
        default_factory=list,
        description="Classes of failures that metrics count as reward 0. Rows and failures stay as they are.",
    )
    count_missing_rollouts_as_zero: bool = Field(
        False,
        description="Count rollouts in the materialized inputs without a row or a failure as reward 0 in metrics.",
    )
    allow_identity_change: bool = Field(
        False,
        description="Merge shards whose settings differ, such as the model or the sampling. The merged run keeps the "
        "differences as a note.",
    )
    overwrite: bool = Field(False, description="Replace an existing output.")
    as_json: bool = Field(False, alias="json", description="Print the summary as JSON instead of a table.")


COMMAND = Command(
    name="ng_aggregate_rollouts",
    summary="Merge rows, failures and metrics of the shards of a run into one run.",
    example="ng_aggregate_rollouts '+input_jsonl_fpath=results/shard_*.jsonl' "
    "+output_jsonl_fpath=results/rollouts.jsonl",
    keys=AggregateKeys,
)
_COMPANION = re.compile(r"(_failures(\.\d+)?|_materialized_inputs|_torn_\d+)\.jsonl")
"""The names, after the stem, of a run's other files."""


def aggregate(keys: AggregateKeys) -> int:
    from nemo_gym.rollouts.lookback.merging import merge_shards

    output = Path(keys.output_jsonl_fpath)
    shards = [path for name in several(keys.input_jsonl_fpath) for path in _find_matches(name, output)]
    merged = merge_shards(
        shards,
        output,
        renumber=keys.renumber,
        overwrite=keys.overwrite,
        zero_classes=keys.count_failure_classes_as_zero,
        counts_missing_as_zero=keys.count_missing_rollouts_as_zero,
        allow_identity_change=keys.allow_identity_change,
    )
    if keys.as_json:
        print(json.dumps(_dump_merged(merged, shards), indent=2))
    else:
        _print(merged, shards)
    return ExitCode.COMPLETE


def _find_matches(name: str, output: Path) -> list[Path]:
    """Return the file of a name, or the scored rows among the files that match a pattern.

    Raises `ConfigError` if nothing matches.
    """
    if not glob.has_magic(name):
        return [Path(name)]
    from nemo_gym.rollouts.output.files import find_ending

    base = Path(Path(name).anchor)
    found = sorted(
        path
        for path in base.glob(str(Path(name).relative_to(base)))
        if find_ending(path) is not None
        and not _COMPANION.search(path.name)
        and path.absolute() != output.absolute()
    )
    if not found:
        raise ConfigError(
            f"no file of rows matches {name}", code="no_shards", remedy="Check +input_jsonl_fpath."
        )
    return found


def _dump_merged(merged: Merged, shards: Sequence[Path]) -> dict[str, object]:
    return {
        "shards": [str(path) for path in shards],
        "rows": merged.rows,
        "scored": merged.scored,
        "failures": merged.failures,
        "agents": {agent: result["key_metrics"] for agent, result in merged.results.items()},
        "files": [str(path) for path in merged.files.present()],
        "notes": list(merged.notes),
        "runs": [account.to_json() for account in merged.shards],
    }


def _print(merged: Merged, shards: Sequence[Path]) -> None:
    unscored = f" ({merged.scored:,} with a score)" if merged.scored < merged.rows else ""
    print(f"{merged.rows:,} rows{unscored} and {merged.failures:,} failed attempts from {len(shards)} shards")
    for agent, result in merged.results.items():
        metrics = result["agent_metrics"]
        reward = metrics.get("mean/reward")
        mean = "no reward" if reward is None else f"mean reward {write_number(reward, 4)}"
        print(
            f"  {agent}: {metrics['count/scored']:,} of {metrics['count/rollouts']:,} rollouts scored, {mean}"
        )
    print_notes(merged.notes)
    for path in merged.files.present():
        print(f"  {path}")
    print(f"next: gym view {merged.files.rows}")


main = COMMAND.entry_point(aggregate)
