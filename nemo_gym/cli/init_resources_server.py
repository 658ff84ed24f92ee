"""`ng_init_resources_server`: create a new environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class InitKeys(Keys):
    entrypoint: str = Field(description="The folder to create: resources_servers/<name>.")


COMMAND = Command(
    name="ng_init_resources_server",
    summary="Create a working environment: code, configuration, examples, tests, README.",
    example="ng_init_resources_server +entrypoint=resources_servers/my_environment",
    keys=InitKeys,
)


def init_resources_server(keys: InitKeys) -> int:
    from nemo_gym.authoring.scaffold import scaffold

    written = scaffold(keys.entrypoint, Path.cwd())
    for path in written:
        print(path.relative_to(Path.cwd()))
    folder = written[0].parent.relative_to(Path.cwd())
    print(f"see:  {folder / 'README.md'}\nnext: gym env test {folder.name}")
    return ExitCode.COMPLETE


main = COMMAND.entry_point(init_resources_server)
