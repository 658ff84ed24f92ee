"""The verbs of `gym ctl` as overrides of `ng_control`."""

from __future__ import annotations

import click
import pytest

from nemo_gym.cli.short.control import CONTROL, build_translation
from nemo_gym.cli.short.translation import GymLine
from nemo_gym.rollouts.control.verbs import ControlVerb


def test_there_is_a_verb_for_every_request_and_one_to_look() -> None:
    assert CONTROL.keys() == {"status", *(verb.value for verb in ControlVerb)}
    assert all(any("--dry-run" in flag.names for flag in CONTROL[verb].flags) for verb in ControlVerb)


def test_the_argument_is_the_run_and_flags_are_its_fields() -> None:
    line = GymLine("control", {}, ["++dry_run=true"], ["results/a.jsonl"], ["+json=true"], "[RUN]")
    assert build_translation("pause")(line) == (
        "control",
        ["++verb=pause", '++run="results/a.jsonl"', "++dry_run=true", "+json=true"],
    )


def test_a_second_run_is_refused() -> None:
    line = GymLine("control", {}, [], ["a", "b"], [], "[RUN]")
    with pytest.raises(click.UsageError, match="name one run"):
        build_translation("pause")(line)


@pytest.mark.parametrize("name", ["concurrency", "max_attempts", "max-attempts"])
def test_a_value_without_its_option_has_a_hint(name: str) -> None:
    line = GymLine("control", {}, [], [name, "8"], [], "[RUN]")
    with pytest.raises(click.UsageError, match=f"Did you mean --{name.replace('_', '-')} 8"):
        build_translation("set")(line)
