"""The parser of `gym`: groups and verbs of `nemo_gym.cli.short.verbs` as click commands."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import click

from nemo_gym.cli import verbs
from nemo_gym.cli.command import ExitCode, report, tell, typed_as
from nemo_gym.cli.short.translation import GymLine, add_search_dirs, split_arguments
from nemo_gym.cli.short.verb import Verb
from nemo_gym.cli.short.verbs import GROUPS, TOP
from nemo_gym.config.problems import did_you_mean
from nemo_gym.failures import GymError

INTRODUCTION = "Train and evaluate language-model agents in environments."
LONG_COMMANDS = "gym help lists the commands behind these verbs. Each accepts all of its keys as +key=value."


class VerbGroup(click.Group):
    """A group that suggests a verb for a misspelt one."""

    other_verbs: Sequence[str] = ()
    """Verbs that are parsed elsewhere."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            known = self.list_commands(ctx)
            choices = f"Choose one of {', '.join(known)}."
            near = _suggest_group(args[0]) or did_you_mean(args[0], [*known, *self.other_verbs])
            ctx.fail(f"There is no verb {args[0]!r}. {near or choices}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of their declaration


def run(arguments: Sequence[str], program: str) -> None:
    """Run a line of `gym`. Raises `SystemExit`."""
    try:
        code = parser().main(list(arguments), prog_name=program, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        tell(f"{program}: interrupted")
        code = ExitCode.INTERRUPTED
    sys.exit(code)


def parser() -> click.Group:
    """Return the parser of the whole command."""
    commands: dict[str, click.Command] = {name: _command(verb) for name, verb in TOP.items()}
    for name, (summary, members) in GROUPS.items():
        commands[name] = VerbGroup(
            name,
            {verb: _command(declared) for verb, declared in members.items()},
            help=summary,
            short_help=summary,
            context_settings=_HELP_OPTIONS,
        )
    whole = VerbGroup(
        "gym", commands, help=INTRODUCTION, epilog=LONG_COMMANDS, context_settings=_HELP_OPTIONS
    )
    whole.other_verbs = verbs()
    return whole


def _suggest_group(verb: str) -> str | None:
    """Return the hint for a verb that another group has."""
    groups = [
        *(["gym"] if verb in TOP else []),
        *(f"gym {group}" for group in GROUPS if verb in GROUPS[group][1]),
    ]
    return f"Did you mean {' or '.join(repr(f'{group} {verb}') for group in groups)}?" if groups else None


_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def _command(verb: Verb) -> click.Command:
    usage = " ".join(part for part in (verb.arguments, "[+key=value]...") if part)
    command = f"ng_{verb.command}"
    return click.Command(
        None,
        params=[
            *(flag.option() for flag in verb.flags),
            click.Argument(
                ["arguments"],
                nargs=-1,
                metavar=usage,
                shell_complete=partial(_complete, verb),
            ),
        ],
        callback=partial(_run_verb, verb),
        help=verb.summary,
        short_help=verb.summary,
        epilog=f"Example:\n\n\b\n  {verb.example}\n\n`{command} --help` lists all keys, for +key=value.",
        context_settings=_HELP_OPTIONS,
    )


def _complete(verb: Verb, _: click.Context, __: click.Parameter, typed: str) -> Any:
    from nemo_gym.cli.short.completion import complete_argument

    return complete_argument(verb.command, verb.arguments, typed)


def _run_verb(verb: Verb, arguments: Sequence[str], **values: Any) -> None:
    path = click.get_current_context().command_path
    names, extras = split_arguments(arguments)
    add_search_dirs(values.get("search_dir", ()))
    try:
        line = GymLine(verb.command, values, _overrides(verb, values), names, extras, verb.arguments)
        target = verb.translate(line)
    except GymError as error:
        sys.exit(report(error, path, as_json=bool(values.get("json"))))
    with typed_as(path):
        import_module(f"nemo_gym.cli.{target.command}").main(target.arguments)


def _overrides(verb: Verb, values: Mapping[str, Any]) -> list[str]:
    return [override for flag in verb.flags for override in flag.overrides(values[flag.parameter])]
