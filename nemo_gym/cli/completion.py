"""`ng_completion`: the script with which a shell completes `gym` and `ng`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys

PROGRAMS = ("gym", "ng")


class CompletionKeys(Keys):
    shell: Literal["bash", "zsh", "fish"] = Field(description="The shell that reads the script.")


COMMAND = Command(
    name="ng_completion",
    summary="Print the script with which a shell completes verbs, options, names and keys of gym.",
    example="ng_completion +shell=bash",
    keys=CompletionKeys,
)


def print_script(keys: CompletionKeys) -> int:
    from nemo_gym.cli.short.completion import script

    print("\n".join(script(keys.shell, program) for program in PROGRAMS))
    return ExitCode.COMPLETE


main = COMMAND.entry_point(print_script)
