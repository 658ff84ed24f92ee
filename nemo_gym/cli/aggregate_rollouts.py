"""`ng_aggregate_rollouts`: merge the shards of a run."""

from __future__ import annotations

import glob
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys
from nemo_gym.failures import ConfigError

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.merging import Merged


class AggregateKeys(Keys):
    input_jsonl_fpath: str | list[str] = Field(
        description="The scored rows of the shards, or patterns of their names; their other files stand beside them."
    )
    output_jsonl_fpath: str = Field(
        description="The file for the rows of all; compressed if it ends in .jsonl.gz or .jsonl.zst."
    )
    renumber: bool = Field(
        False, description="Each shard numbers tasks of its own from 0: number them through all shards."
    )
    overwrite: bool = Field(False, description="Replace an earlier run in the output.")
    as_json: bool = Field(False, alias="json", description="Print the summary as JSON instead of a table.")


COMMAND = Command(
    name="ng_aggregate_rollouts",
    summary="Merge the shards of a run into one, rows, failures and metrics, as if it had never been cut.",
    example="ng_aggregate_rollouts '+input_jsonl_fpath=results/shard_*.jsonl' "
    "+output_jsonl_fpath=results/rollouts.jsonl",
    keys=AggregateKeys,
)
_COMPANION = re.compile(r"(_failures(\.\d+)?|_materialized_inputs|_torn_\d+)\.jsonl")
"""How the names of a run's other files go on after its stem."""


def aggregate(keys: AggregateKeys) -> int:
    from nemo_gym.rollouts.lookback.merging import merge_shards

    named = [keys.input_jsonl_fpath] if isinstance(keys.input_jsonl_fpath, str) else keys.input_jsonl_fpath
    output = Path(keys.output_jsonl_fpath)
    shards = [path for name in named for path in _matching(name, output)]
    merged = merge_shards(shards, output, renumber=keys.renumber, overwrite=keys.overwrite)
    if keys.as_json:
        print(json.dumps(_as_json(merged, shards), indent=2))
    else:
        _print(merged, shards)
    return ExitCode.COMPLETE


def _matching(name: str, output: Path) -> list[Path]:
    """The files that a name or a pattern means; of a pattern, those that hold the rows of a run.

    Raises `ConfigError` for a pattern that meets none.
    """
    if not glob.has_magic(name):
        return [Path(name)]
    from nemo_gym.rollouts.output.files import ending_of

    base = Path(Path(name).anchor)
    found = sorted(
        path
        for path in base.glob(str(Path(name).relative_to(base)))
        if ending_of(path) is not None
        and not _COMPANION.search(path.name)
        and path.absolute() != output.absolute()
    )
    if not found:
        raise ConfigError(
            f"no file of rows is named like {name}", code="no_shards", remedy="Check +input_jsonl_fpath."
        )
    return found


def _as_json(merged: Merged, shards: Sequence[Path]) -> dict[str, object]:
    return {
        "shards": [str(path) for path in shards],
        "rows": merged.rows,
        "failures": merged.failures,
        "agents": {agent: result["key_metrics"] for agent, result in merged.results.items()},
        "files": [str(path) for path in merged.files.present()],
        "notes": list(merged.notes),
    }


def _print(merged: Merged, shards: Sequence[Path]) -> None:
    print(f"{merged.rows:,} rows and {merged.failures:,} failed attempts of {len(shards)} shards")
    for agent, result in merged.results.items():
        metrics = result["agent_metrics"]
        reward = metrics.get("mean/reward")
        told = "no reward" if reward is None else f"mean reward {reward:.4f}"
        print(
            f"  {agent}: {metrics['count/scored']:,} of {metrics['count/rollouts']:,} rollouts scored, {told}"
        )
    for note in merged.notes:
        print(f"note: {note}")
    for path in merged.files.present():
        print(f"  {path}")


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(COMMAND.run(argv, aggregate))
