"""The parser of `gym`: groups and verbs of `nemo_gym.cli.short.verbs` as click commands."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import takewhile
from typing import Any

import click

from nemo_gym.cli import verbs
from nemo_gym.cli.command import ExitCode, asks_for, report, tell, typed_as
from nemo_gym.cli.short.translation import GymLine, add_search_dirs, split_arguments
from nemo_gym.cli.short.verb import Verb
from nemo_gym.cli.short.verbs import GROUPS, TOP
from nemo_gym.config.problems import did_you_mean
from nemo_gym.config.spelling import flags_typed
from nemo_gym.failures import GymError

INTRODUCTION = "Train and evaluate language-model agents in environments."
LONG_COMMANDS = (
    "Each verb takes more keys as +key=value, and +help=true lists them. gym help lists the long commands."
)


class VerbCommand(click.Command):
    """A verb that reports its unknown and repeated options, and the wrong values of the others, together."""

    ignore_unknown_options = True  # they become arguments, in which `parse_args` finds all of them

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        faults: list[click.UsageError] = []
        for option in self.params:
            if isinstance(option, click.Option):
                option.process_value = partial(_collect_fault, option.process_value, faults)  # type: ignore[method-assign]
        rest = super().parse_args(ctx, list(args))
        faults += [click.UsageError(text, ctx) for text in self._describe_repeated(ctx, args)]
        typed = [*takewhile(lambda each: each != "--", args)]
        unknown = [each for each in ctx.params["arguments"] if re.match("-.", each) and each in typed]
        faults += [click.UsageError(self._describe_unknown(each.split("=")[0]), ctx) for each in unknown]
        if len(faults) == 1:
            raise faults[0]
        if faults:
            raise click.UsageError("\n".join(fault.format_message() for fault in faults), ctx)
        return rest

    def _describe_repeated(self, ctx: click.Context, args: list[str]) -> Iterator[str]:
        """Yield a message about each option that is given twice and has one value, of which click takes the last."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for option, count in Counter(each for each in given if isinstance(each, click.Option)).items():
            if count > 1 and not option.multiple and not option.is_flag:
                yield f"Option {' / '.join(map(repr, option.opts))} is given {count} times. Give it once."

    def _describe_unknown(self, name: str) -> str:
        known = [each for option in self.params for each in option.opts if each.startswith("--")]
        near = did_you_mean(name, known)
        return f"No such option {name!r}.{f' {near}' if near else ''}"


def _collect_fault(process: Any, faults: list[click.UsageError], ctx: click.Context, value: Any) -> Any:
    """Return the value of an option; None, and the fault in `faults`, if it is wrong."""
    try:
        return process(ctx, value)
    except click.BadParameter as fault:
        faults.append(fault)
        return None


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
    return VerbCommand(
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
        epilog=f"Example:\n\n\b\n  {verb.example}\n\n+help=true lists all keys, for +key=value.",
        context_settings=_HELP_OPTIONS,
    )


def _complete(verb: Verb, _: click.Context, __: click.Parameter, typed: str) -> Any:
    from nemo_gym.cli.short.completion import complete_argument

    return complete_argument(verb.command, verb.arguments, typed)


def _run_verb(verb: Verb, arguments: Sequence[str], **values: Any) -> None:
    path = click.get_current_context().command_path
    names, extras = split_arguments(arguments)
    if asks_for(extras, "help"):
        from nemo_gym.cli.usage import render_keys

        click.echo(render_keys(import_module(f"nemo_gym.cli.{verb.command}").COMMAND, path))
        return
    add_search_dirs(values.get("search_dir", ()))
    try:
        line = GymLine(verb.command, values, _overrides(verb, values), names, extras, verb.arguments)
        target = verb.translate(line)
    except GymError as error:
        sys.exit(report(error, path, as_json=bool(values.get("json"))))
    flags = {flag.target: (flag.names.split()[0], flag.metavar is None) for flag in verb.flags if flag.target}
    with typed_as(path), flags_typed(flags):
        import_module(f"nemo_gym.cli.{target.command}").main(target.arguments)


def _overrides(verb: Verb, values: Mapping[str, Any]) -> list[str]:
    return [override for flag in verb.flags for override in flag.overrides(values[flag.parameter])]
