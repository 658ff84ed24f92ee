"""Download and upload of datasets on the Hugging Face hub.

`huggingface_hub` is part of the extra `hub`, and is imported on first use.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nemo_gym.failures import ConfigError, GymError, TransportError
from nemo_gym.rollouts.output.files import ENDINGS as JSONL_ENDINGS

if TYPE_CHECKING:
    from huggingface_hub import HfApi


class Hub(Protocol):
    """A service with repositories of dataset files."""

    def fetch(self, repo_id: str, file: str | None, to: Path, *, revision: str | None = None) -> Path:
        """Download a file of a repository to `to`; by default its only JSONL file. Returns the path."""

    def upload(self, path: Path, repo_id: str, file: str, *, private: bool = False, message: str = "") -> str:
        """Upload the file at `path` to a repository, which is created if necessary. Returns the URL."""


class HuggingFaceHub:
    """The hub at huggingface.co, or at `endpoint` (by default the environment's `HF_ENDPOINT`)."""

    def __init__(self, token: str | None = None, endpoint: str | None = None) -> None:
        """Without `token`, `huggingface_hub` uses `HF_TOKEN` or its own login."""
        self._token = token
        self._endpoint = endpoint or os.environ.get("HF_ENDPOINT")

    def fetch(self, repo_id: str, file: str | None, to: Path, *, revision: str | None = None) -> Path:
        api = self._api()
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=to.parent, prefix=".hub_") as folder:
            try:
                files = (
                    [file] if file else api.list_repo_files(repo_id, repo_type="dataset", revision=revision)
                )
                found = api.hf_hub_download(
                    repo_id,
                    _choose_rows_file(files),
                    repo_type="dataset",
                    revision=revision,
                    local_dir=folder,
                )
            except Exception as error:
                raise _explain(error, f"fetch {file or 'a dataset'} from {repo_id}") from error
            return Path(found).replace(to)

    def upload(self, path: Path, repo_id: str, file: str, *, private: bool = False, message: str = "") -> str:
        api = self._api()
        try:
            api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
            committed = api.upload_file(
                path_or_fileobj=path,
                path_in_repo=file,
                repo_id=repo_id,
                repo_type="dataset",
                commit_message=message or f"Upload {file}",
            )
        except Exception as error:
            raise _explain(error, f"upload {file} to {repo_id}") from error
        return str(committed.commit_url)

    def _api(self) -> HfApi:
        try:
            from huggingface_hub import HfApi
        except ImportError as error:
            raise ConfigError(
                "the Hugging Face hub needs the package huggingface_hub",
                code="extra_missing",
                remedy="Install it: pip install huggingface_hub",
            ) from error
        return HfApi(endpoint=self._endpoint, token=self._token)


def _choose_rows_file(files: list[str]) -> str:
    """Return the only JSONL file of a repository."""
    rows = files if len(files) == 1 else [file for file in files if file.endswith(JSONL_ENDINGS)]
    if len(rows) == 1:
        return rows[0]
    raise ConfigError(
        f"the repository has {len(rows) or 'no'} JSONL files{': ' if rows else ''}{', '.join(sorted(rows))}",
        code="hub_file_unnamed",
        remedy="Select one by +artifact_fpath, or by `artifact_fpath` of the dataset's source.",
    )


def _explain(error: Exception, purpose: str) -> GymError:
    """Return an error of the hub's client as one of the gym."""
    if isinstance(error, GymError):
        return error
    status: Any = getattr(getattr(error, "response", None), "status_code", None)
    first_line = next(iter(str(error).strip().splitlines()), "")
    message = f"cannot {purpose}: {type(error).__name__}: {first_line}"
    if status in (401, 403, 404) or (status is None and isinstance(error, ValueError)):
        return ConfigError(
            message,
            code="hub_refused",
            remedy="Check the repository, the file and the token (+hf_token, or HF_TOKEN).",
        )
    return TransportError(message, code="hub_failed", retryable=True)
