"""`ng_prepare_data`: validate, count and merge the datasets of a configuration, or other files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from nemo_gym.cli.collect_rollouts import DatasetKeys
from nemo_gym.cli.command import ExitCode
from nemo_gym.cli.reverify import PolicyFreeCommand
from nemo_gym.config.types import DatasetType
from nemo_gym.failures import ConfigError

if TYPE_CHECKING:
    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.datasets.preparation import PreparationReport, SourceFile

_TYPES_OF_MODE: dict[str, tuple[DatasetType, ...]] = {
    "example_validation": ("example",),
    "train_preparation": ("train", "validation"),
}
_SHOWN_REPETITIONS = 10


class PrepareKeys(DatasetKeys):
    output_dirpath: str | None = Field(
        None,
        description="The folder for <split>.jsonl and <split>_metrics.json; without it, nothing is written.",
    )
    mode: Literal["example_validation", "train_preparation"] | None = Field(
        None,
        description="The declared datasets to use: `example_validation` for examples, `train_preparation` for "
        "train and validation; by default all.",
    )
    should_download: bool = Field(
        False, description="Download missing files from the sources of the datasets."
    )
    input_jsonl_fpath: str | list[str] | None = Field(
        None,
        description="Files to use instead of the declared datasets; `agent_name`, `prompt_config` and `split` are "
        "those of their rows.",
    )
    split: DatasetType = Field("example", description="The split of those rows.")
    skip_invalid_rows: bool = Field(
        False,
        description="Leave out malformed rows, and rows that their environments cannot read, instead of rejecting the "
        "dataset.",
    )
    remove_duplicates: bool = Field(
        False,
        description="Skip duplicate rows of a split, and train rows that leak validation rows.",
    )
    hf_token: str | None = Field(None, description="The token for the Hugging Face hub.", repr=False)
    as_json: bool = Field(False, alias="json", description="Print the report as JSON.")


COMMAND = PolicyFreeCommand(
    name="ng_prepare_data",
    summary="Validate and count the rows of datasets, find duplicates and leaks, and merge the rows by split.",
    example="ng_prepare_data '+config_paths=[configs/math.yaml]' +mode=train_preparation "
    "+output_dirpath=data/math +should_download=true",
    keys=PrepareKeys,
    exit_codes={
        ExitCode.COMPLETE: "every row is valid",
        ExitCode.FATAL: "failed",
        ExitCode.BAD_INPUT: "wrong usage, or malformed rows; nothing was written",
        ExitCode.PARTIAL: "written, with duplicates or leaks",
        ExitCode.INTERRUPTED: "interrupted",
    },
    accepts_keys_of=("e2e_collect_rollouts",),
)


def prepare_data(keys: PrepareKeys, config: GlobalConfig) -> int:
    from nemo_gym.datasets.preparation import Preparation
    from nemo_gym.launch.task_checks import TaskChecks

    with TaskChecks(config.servers, config.data) as checks:
        preparation = Preparation(list(_sources(keys, config)), checks)
        report = preparation.inspect()
    if not keys.skip_invalid_rows:
        report.refuse_faults()
    if keys.output_dirpath is not None:
        preparation.write(Path(keys.output_dirpath), without_repetitions=keys.remove_duplicates)
    print(json.dumps(report.to_json(), indent=2) if keys.as_json else "\n".join(_text(report)))
    has_repetitions = bool(report.duplicates or report.leaks) and not keys.remove_duplicates
    return ExitCode.PARTIAL if has_repetitions else ExitCode.COMPLETE


def _sources(keys: PrepareKeys, config: GlobalConfig) -> Iterator[SourceFile]:
    from nemo_gym.datasets.preparation import SourceFile

    if keys.input_jsonl_fpath is None:
        yield from _list_declared_sources(keys, config)
        return
    for file in keys.dataset_files(num_repeats=1):
        yield SourceFile(keys.split, file.path.stem, file)


def _list_declared_sources(keys: PrepareKeys, config: GlobalConfig) -> Iterator[SourceFile]:
    from nemo_gym.datasets.declared import available_file, environment_folder, list_declared_datasets
    from nemo_gym.datasets.hub import HuggingFaceHub
    from nemo_gym.datasets.preparation import SourceFile
    from nemo_gym.resources.task_schemas import load_task_data_schema
    from nemo_gym.rollouts.plan.dataset import DatasetFile

    types = _TYPES_OF_MODE.get(keys.mode or "")
    wanted = [
        each
        for each in list_declared_datasets(config)
        if types is None or each.declared.dataset.type in types
    ]
    if not wanted:
        raise ConfigError(
            f"the configuration declares no dataset of type {' or '.join(types)}"
            if types
            else "the configuration declares no dataset",
            code="no_dataset",
            remedy="Declare one under `datasets` of an agent, or give files by +input_jsonl_fpath.",
        )
    hub = HuggingFaceHub(keys.hf_token or config.data.get("hf_token")) if keys.should_download else None
    for each in wanted:
        declared, agent = each
        dataset = declared.dataset
        folder = environment_folder(each, config)
        schema = load_task_data_schema(folder) if folder is not None else None
        prompt = Path(dataset.prompt_config) if dataset.prompt_config else None
        path = available_file(declared, hub)
        rows = DatasetFile(path, dataset.num_repeats, agent, prompt)
        yield SourceFile(dataset.type, dataset.name, rows, schema)


def _text(report: PreparationReport) -> Iterator[str]:
    for file in report.files:
        statistics = file.statistics
        invalid = f", {file.invalid} malformed" if file.invalid else ""
        agents = ", ".join(sorted(statistics.agents)) or "no agent"
        yield f"{file.source.split}: {file.source.file.path}: {statistics.rows:,} rows{invalid}, for {agents}"
    for fault in report.faults.shown:
        yield f"malformed: {fault}"
    for agent, reason in report.unchecked.items():
        yield f"not checked by an environment: rows for {agent}: {reason}"
    for what, found in (("duplicate", report.duplicates), ("leak", report.leaks)):
        for one in found[:_SHOWN_REPETITIONS]:
            verb = "repeats" if what == "duplicate" else "leaks"
            yield f"{what}: {report.where(one.place)} {verb} {report.where(one.first)}"
        if len(found) > _SHOWN_REPETITIONS:
            yield f"… and {len(found) - _SHOWN_REPETITIONS:,} more of this kind"
    for path, rows in report.written.items():
        yield f"written: {path} ({rows:,} rows)"


main = COMMAND.entry_point(prepare_data)
