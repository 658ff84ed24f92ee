"""`ng_prepare_benchmark`: run the scripts that prepare the datasets of benchmarks."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys
from nemo_gym.config.types import DatasetType


class PrepareBenchmarkKeys(Keys):
    config_paths: list[str] = Field(description="The configurations of the benchmarks.")
    split: DatasetType = Field("benchmark", description="The type of the datasets to prepare.")
    overwrite: bool = Field(False, description="Prepare datasets anew whose files exist.")


COMMAND = Command(
    name="ng_prepare_benchmark",
    summary="Prepare the datasets of benchmarks by their scripts (extra `benchmarks`).",
    example="ng_prepare_benchmark '+config_paths=[benchmarks/gpqa/config.yaml]'",
    keys=PrepareBenchmarkKeys,
)


def prepare_benchmarks(keys: PrepareBenchmarkKeys) -> int:
    from nemo_gym.config.loading import outline
    from nemo_gym.config.problems import Problems
    from nemo_gym.config.spelling import spell
    from nemo_gym.datasets.benchmarks import find_prepared_datasets, report_missing_packages, run_script
    from nemo_gym.paths import find_file

    here, problems = Path.cwd(), Problems()
    config = outline([f"++config_paths={spell(keys.config_paths)}"], here, problems)
    datasets = find_prepared_datasets(config, keys.split, here, problems)
    if not datasets:
        problems.add_absence(
            None, f"The configuration declares no dataset of type {keys.split} with a `prepare_script`."
        )
    wanted = [each for each in datasets if keys.overwrite or find_file(each.output, here) is None]
    for dataset in wanted:
        report_missing_packages(dataset, problems)
    problems.raise_if_any()
    for dataset in datasets:
        if dataset in wanted:
            print(f"{dataset.name}: {dataset.script}", flush=True)
            print(f"written: {run_script(dataset, here)}", flush=True)
        else:
            print(f"{dataset.name}: {dataset.output} exists; +overwrite=true prepares it anew")
    return ExitCode.COMPLETE


main = COMMAND.entry_point(prepare_benchmarks)
