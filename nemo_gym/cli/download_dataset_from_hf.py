"""`ng_download_dataset_from_hf`: download a dataset from the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class DownloadKeys(Keys):
    repo_id: str = Field(description="The repository: <owner>/<name>.")
    artifact_fpath: str | None = Field(
        None, description="The file in the repository; by default its only JSONL file."
    )
    output_fpath: str = Field(description="The file to write.")
    revision: str | None = Field(None, description="A branch, tag or commit; by default the main branch.")
    hf_token: str | None = Field(
        None, description="The token; by default HF_TOKEN or the login of the hub's client.", repr=False
    )


COMMAND = Command(
    name="ng_download_dataset_from_hf",
    summary="Download a dataset from the Hugging Face hub (extra `hub`).",
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


main = COMMAND.entry_point(download)
