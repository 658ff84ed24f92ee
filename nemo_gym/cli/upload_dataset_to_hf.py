"""`ng_upload_dataset_to_hf`: put a dataset into a repository of the Hugging Face hub."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class UploadKeys(Keys):
    input_jsonl_fpath: str = Field(description="The dataset's file.")
    repo_id: str = Field(description="The repository: <owner>/<name>; made where there is none.")
    artifact_fpath: str | None = Field(
        None, description="The file's name in the repository; its own unless given."
    )
    private: bool = Field(False, description="Make a new repository a private one.")
    message: str = Field("", description="What the commit says.")
    hf_token: str | None = Field(
        None, description="The token; HF_TOKEN or the hub's own login unless given.", repr=False
    )


COMMAND = Command(
    name="ng_upload_dataset_to_hf",
    summary="Put a dataset into a repository of the Hugging Face hub (extra `hub`), if each line is a JSON object.",
    example="ng_upload_dataset_to_hf +input_jsonl_fpath=data/train.jsonl +repo_id=me/my-tasks +private=true",
    keys=UploadKeys,
)


def upload(keys: UploadKeys) -> int:
    from nemo_gym.datasets.checking import read_rows
    from nemo_gym.datasets.hub import HuggingFaceHub
    from nemo_gym.rollouts.plan.dataset import locate

    path = locate(Path(keys.input_jsonl_fpath))
    rows = sum(1 for _ in read_rows(path))
    name = keys.artifact_fpath or path.name
    url = HuggingFaceHub(keys.hf_token).hand_on(
        path, keys.repo_id, name, private=keys.private, message=keys.message
    )
    print(f"{rows:,} rows: {url}")
    return ExitCode.COMPLETE


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(COMMAND.run(argv, upload))
