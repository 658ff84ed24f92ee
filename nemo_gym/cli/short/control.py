"""The verbs of `gym ctl`, which control a run that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import click

from nemo_gym.cli.short.flags import CONCURRENCY, DISCOVERY_NAME, HEAD, JSON, Flag, first_or_list
from nemo_gym.cli.short.translation import GymLine, Target, Translation
from nemo_gym.cli.short.verb import Verb
from nemo_gym.config.spelling import spell

_DRY_RUN = Flag("--dry-run", None, "Show what would change, and change nothing.")
_COMMON = (HEAD, DISCOVERY_NAME, JSON)
_ROLLOUT = Flag(
    "--rollout",
    "TASK/REPEAT",
    "A rollout, such as 3/0, or all of a task; repeatable.",
    key="rollouts",
    form="texts",
    write=first_or_list,
)


def build_translation(verb: str) -> Translation:
    """Return the translation of `gym ctl VERB [RUN]`."""

    def translate(line: GymLine) -> Target:
        if len(line.names) > 1:
            raise click.UsageError(_describe_second(verb, *line.names[:2]))
        named = [f"++run={spell(line.names[0])}"] if line.names else []
        return Target(line.command, [f"++verb={verb}", *named, *line.overrides])

    return translate


def _describe_second(verb: str, first: str, second: str) -> str:
    """Return what is wrong with two positional arguments, with the option that the first one names, if any."""
    options = [name for flag in CONTROL[verb].flags for name in flag.names.split() if flag.metavar]
    meant = next((each for each in options if each == f"--{first.replace('_', '-')}"), None)
    near = f" Did you mean {meant} {second}?" if meant else ""
    return f"Unexpected argument {second!r}: name one run.{near}"


def _build_verb(verb: str, summary: str, *flags: Flag, example: str = "", dry_run: bool = True) -> Verb:
    return Verb(
        command="control",
        summary=summary,
        example=f"gym ctl {verb}{example}",
        arguments="[RUN]",
        translate=build_translation(verb),
        flags=(*flags, *((_DRY_RUN,) if dry_run else ()), *_COMMON),
    )


CONTROL: Mapping[str, Verb] = {
    "status": _build_verb("status", "Show the runs that go on.", dry_run=False),
    "pause": _build_verb("pause", "Start no rollout until `resume`; clocks stand still."),
    "resume": _build_verb("resume", "Start rollouts again."),
    "drain": _build_verb("drain", "End the run with the rollouts in flight."),
    "cancel": _build_verb(
        "cancel", "Cancel rollouts in flight, which have failed then.", _ROLLOUT, example=" --rollout 3/0"
    ),
    "requeue": _build_verb(
        "requeue",
        "Attempt failed rollouts again: all, a class, or named ones.",
        _ROLLOUT,
        Flag("--class", "NAME", "Only failures of this class, as `status` names it.", key="failure_class"),
        example=" --class engine:timeout",
    ),
    "set": _build_verb(
        "set",
        "Change concurrency, deadline or attempts of the run.",
        replace(CONCURRENCY, help="Rollouts in flight, or auto."),
        Flag(
            "--timeout", "S", "Seconds of attempts that start later.", key="rollout_timeout_s", form="decimal"
        ),
        Flag("--max-attempts", "N", "Attempts at a rollout.", form="number"),
        example=" --concurrency 16",
    ),
}
