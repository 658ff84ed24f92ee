"""The declarations of verbs fit the commands that they run."""

from __future__ import annotations

import shlex
from importlib import import_module

import click
import pytest

from nemo_gym import cli
from nemo_gym.cli import verbs
from nemo_gym.cli.command import ConfigCommand
from nemo_gym.cli.short.flags import MODEL
from nemo_gym.cli.short.line import parser
from nemo_gym.cli.short.verb import Verb
from nemo_gym.cli.short.verbs import EXPORT_FORMATS, GROUPS, TOP
from nemo_gym.cli.usage import render_keys
from nemo_gym.config.keys import GlobalKeys
from nemo_gym.config.pydantic_problems import list_keys
from nemo_gym.export.formats import NAMES

VERBS = {**TOP} | {
    f"{group} {name}": verb for group, (_, verbs) in GROUPS.items() for name, verb in verbs.items()
}


@pytest.mark.parametrize("name", VERBS)
def test_every_option_sets_a_key_of_its_command(name: str) -> None:
    verb = VERBS[name]
    command = import_module(f"nemo_gym.cli.{verb.command}").COMMAND
    known = set(list_keys(command.keys))
    if isinstance(command, ConfigCommand):
        known |= set(GlobalKeys.model_fields)
    keys = {flag.target.partition(".")[0] for flag in verb.flags if flag.target}
    assert keys <= known
    assert isinstance(command, ConfigCommand) or not set(MODEL) <= set(verb.flags)


@pytest.mark.parametrize("name", VERBS)
def test_the_example_of_a_verb_can_be_parsed(name: str) -> None:
    program, *words = shlex.split(VERBS[name].example)
    path = name.split()
    assert [program, *words[: len(path)]] == ["gym", *path]
    command = parser()
    for word in path:
        command = command.commands[word]  # type: ignore[assignment]
    context = command.make_context(name, words[len(path) :])
    assert set(context.params) == {"arguments", *(flag.parameter for flag in VERBS[name].flags)}


def test_every_verb_without_a_group_is_parsed_here() -> None:
    assert set(verbs()) & set(TOP) <= cli._SHORT


def test_summaries_are_one_sentence() -> None:
    def is_sentence(verb: Verb) -> bool:
        return verb.summary.endswith(".") and len(verb.summary) <= 65

    assert [name for name, verb in VERBS.items() if not is_sentence(verb)] == []


def test_the_help_of_exports_lists_every_format() -> None:
    assert tuple(EXPORT_FORMATS.removesuffix(".").replace(" or ", ", ").split(", ")) == NAMES
    command = parser().commands["eval"].commands["export"]  # type: ignore[attr-defined]
    helped = " ".join(command.get_help(click.Context(command)).split())
    assert EXPORT_FORMATS in helped


@pytest.mark.parametrize("name", VERBS)
def test_all_keys_of_a_verb_are_told(name: str) -> None:
    command = import_module(f"nemo_gym.cli.{VERBS[name].command}").COMMAND
    told = render_keys(command, f"gym {name}")
    assert [key for key in list_keys(command.keys) if f"  {key}  (" not in told] == []
