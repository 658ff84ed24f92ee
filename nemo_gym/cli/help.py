"""`ng_help`: the list of all commands."""

from __future__ import annotations

from importlib import import_module

from nemo_gym.cli import verbs
from nemo_gym.cli.command import Command, ExitCode, NoKeys, print_folded
from nemo_gym.tables import hang_text, terminal_width

COMMAND = Command(
    name="ng_help",
    summary="List all commands.",
    example="ng_help",
    keys=NoKeys,
)


def list_commands(keys: NoKeys) -> int:
    commands = [import_module(f"nemo_gym.cli.{verb}").COMMAND for verb in verbs()]
    titles = 2 + max(len(command.name) for command in commands)
    for command in commands:
        print("\n".join(hang_text(command.name, command.summary, titles, terminal_width())))
    print_folded(
        "\n<command> --help shows the keys of a command. `ng <verb>` is another form of `ng_<verb>`."
    )
    return ExitCode.COMPLETE


main = COMMAND.entry_point(list_commands)
