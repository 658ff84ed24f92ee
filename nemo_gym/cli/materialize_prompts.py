"""`ng_materialize_prompts`: fill a prompt template with the rows of a dataset."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class MaterializeKeys(Keys):
    input_jsonl_fpath: str = Field(description="Rows without an input.")
    prompt_config: str = Field(
        description="The prompt template: a YAML file with `user` and optionally `system`."
    )
    output_jsonl_fpath: str = Field(description="The file for the rows with their input.")


COMMAND = Command(
    name="ng_materialize_prompts",
    summary="Fill a prompt template with the rows of a dataset, and write task rows.",
    example="ng_materialize_prompts +input_jsonl_fpath=questions.jsonl +prompt_config=prompts/cot.yaml "
    "+output_jsonl_fpath=tasks.jsonl",
    keys=MaterializeKeys,
)


def write_materialized(keys: MaterializeKeys) -> int:
    from nemo_gym.datasets.prompts import materialize_prompts

    output = Path(keys.output_jsonl_fpath)
    count = materialize_prompts(Path(keys.input_jsonl_fpath), keys.prompt_config, output)
    print(f"{output}: {count:,} rows")
    return ExitCode.COMPLETE


main = COMMAND.entry_point(write_materialized)
