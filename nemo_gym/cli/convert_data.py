"""`ng_convert_data`: make task rows of rows in the form of Chat Completions, of questions with answers, of a table."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class ConvertKeys(Keys):
    input_jsonl_fpath: str = Field(
        description="Rows with `messages` or nested tools, or with `question` and `answer`; JSONL, one JSON array, CSV "
        "or TSV. The answer becomes `expected_answer`; of a solution that ends in `#### 4`, it is the 4."
    )
    output_jsonl_fpath: str = Field(description="The file for the task rows.")


COMMAND = Command(
    name="ng_convert_data",
    summary="Make task rows of rows in the form of Chat Completions, of questions with answers, or of a table.",
    example="ng_convert_data +input_jsonl_fpath=chat.json +output_jsonl_fpath=tasks.jsonl",
    keys=ConvertKeys,
)


def convert_data(keys: ConvertKeys) -> int:
    from nemo_gym.datasets.converting import convert_dataset

    output = Path(keys.output_jsonl_fpath)
    count = convert_dataset(Path(keys.input_jsonl_fpath), output)
    print(f"{output}: {count:,} rows")
    return ExitCode.COMPLETE


main = COMMAND.entry_point(convert_data)
