"""`ng_download_dataset_from_hf`: fetch a dataset from the Hugging Face hub."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class DownloadKeys(Keys):
    repo_id: str = Field(description="The repository: <owner>/<name>.")
    artifact_fpath: str | None = Field(
        None, description="The file in the repository; its only JSONL file unless given."
    )
    output_fpath: str = Field(description="Where to put it.")
    revision: str | None = Field(None, description="A branch, tag or commit; the main branch unless given.")
    hf_token: str | None = Field(
        None, description="The token; HF_TOKEN or the hub's own login unless given.", repr=False
    )


COMMAND = Command(
    name="ng_download_dataset_from_hf",
    summary="Fetch a dataset from the Hugging Face hub (extra `hub`).",
    example="ng_download_dataset_from_hf +repo_id=me/my-tasks +artifact_fpath=train.jsonl "
    "+output_fpath=data/train.jsonl",
    keys=DownloadKeys,
)


def download(keys: DownloadKeys) -> int:
    from nemo_gym.datasets.hub import HuggingFaceHub
    from nemo_gym.rollouts.plan.dataset import read_lines

    hub = HuggingFaceHub(keys.hf_token)
    path = hub.fetch(keys.repo_id, keys.artifact_fpath, Path(keys.output_fpath), revision=keys.revision)
    print(f"{path}: {sum(1 for _ in read_lines(path)):,} rows")
    return ExitCode.COMPLETE


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(COMMAND.run(argv, download))
