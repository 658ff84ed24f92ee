"""`ng_pull_tasks`: fetch task folders from a folder, an archive or a URL."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class PullKeys(Keys):
    source: str = Field(description="A folder, an archive (tar or zip), or the URL of an archive.")
    folder: str = Field(description="The new folder.")
    sha256: str | None = Field(None, description="The digest that the archive must have.")


COMMAND = Command(
    name="ng_pull_tasks",
    summary="Fetch task folders from a folder, an archive or a URL.",
    example="ng_pull_tasks +source=https://example.org/tasks.tar.gz +folder=tasks",
    keys=PullKeys,
)


def pull(keys: PullKeys) -> int:
    from nemo_gym.sources.task_folders.pull import pull_tasks

    dataset = pull_tasks(keys.source, Path(keys.folder).expanduser(), keys.sha256)
    print(f"{len(dataset.folders)} task folders in {keys.folder}")
    return ExitCode.COMPLETE


main = COMMAND.entry_point(pull)
