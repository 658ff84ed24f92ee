"""`ng_upload_dataset_to_hf`: upload a dataset to a repository of the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class UploadKeys(Keys):
    input_jsonl_fpath: str = Field(description="The file of the dataset.")
    repo_id: str = Field(description="The repository: <owner>/<name>; created if it does not exist.")
    artifact_fpath: str | None = Field(
        None, description="The name of the file in the repository; by default its own name."
    )
    private: bool = Field(False, description="Make a new repository private.")
    message: str = Field("", description="The commit message.")
    hf_token: str | None = Field(
        None, description="The token; by default HF_TOKEN or the login of the hub's client.", repr=False
    )


COMMAND = Command(
    name="ng_upload_dataset_to_hf",
    summary="Upload a dataset, each line of which is a JSON object, to the Hugging Face hub (extra `hub`).",
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
    url = HuggingFaceHub(keys.hf_token).upload(
        path, keys.repo_id, name, private=keys.private, message=keys.message
    )
    print(f"{rows:,} rows: {url}")
    return ExitCode.COMPLETE


main = COMMAND.entry_point(upload)
