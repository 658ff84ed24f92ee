"""A verb of `gym`."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_gym.cli.short.flags import Flag
from nemo_gym.cli.short.translation import Translation, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb: a command with short flags."""

    command: str
    """The module of the command in `nemo_gym.cli`."""
    summary: str
    example: str
    flags: tuple[Flag, ...] = ()
    arguments: str = ""
    """The positional arguments in the usage line."""
    translate: Translation = plain
