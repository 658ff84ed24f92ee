"""`ng_init_task`: write a new task folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class InitTaskKeys(Keys):
    folder: str = Field(description="The folder to write.")


COMMAND = Command(
    name="ng_init_task",
    summary="Write a new task folder, which works as it is.",
    example="ng_init_task +folder=tasks/count_words",
    keys=InitTaskKeys,
)


def write(keys: InitTaskKeys) -> int:
    from nemo_gym.sources.task_folders.template import write_task

    folder = Path(keys.folder).expanduser()
    for path in write_task(folder):
        print(path)
    print(f"next: gym dataset validate {folder}")
    return ExitCode.COMPLETE


main = COMMAND.entry_point(write)
