from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.config._overrides import parse_overrides
from nemo_gym.config.problems import Problems
from nemo_gym.config.spelling import flags_typed, spell, spell_keys, suggest_option
from nemo_gym.config.tree import dump_plain

TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=("Cs", "Cc")))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXTS,
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), below)
    ),
    max_leaves=6,
)


@given(VALUES)
def test_a_spelled_value_is_parsed_to_itself(value: object) -> None:
    problems = Problems()
    (override,) = parse_overrides([f"++key={spell(value)}"], problems)
    assert not problems.found
    assert override.value is not None
    assert dump_plain(override.value) == value


def test_text_that_looks_like_another_type_stays_text() -> None:
    assert [spell(value) for value in ("5", "true", 5, True, None)] == [
        '"5"',
        '"true"',
        "5",
        "true",
        "null",
    ]


FLAGS = {"resume_from_cache": ("--resume", True), "format": ("--format", False), "limit": ("--limit", False)}


@pytest.mark.parametrize(
    ("message", "spelt"),
    [
        ("Write +format=<value>.", "Write --format <value>."),
        ("Resume with +resume_from_cache=true (gym: --resume), or not.", "Resume with --resume, or not."),
        ("choose another +output_jsonl_fpath (gym: -o).", "choose another -o."),
        ("+resume_from_cache=true starts them; +limit=3, too", "--resume starts them; --limit 3, too"),
        ('command line: ++format="a b"', "command line: --format a b"),
        ("+resume_from_cache=false", "+resume_from_cache=false"),
        ("--resume (+resume_from_cache=true) continues it", "--resume continues it"),
        ("Start it with gym env start (ng_run), or wait.", "Start it with gym env start, or wait."),
        ("the port is taken by pid 7 (ng_run)", "the port is taken by pid 7 (ng_run)"),
        ("+unknown=1, ++a.b.format=x and 1+limit=2 stay", "+unknown=1, ++a.b.format=x and 1+limit=2 stay"),
    ],
)
def test_keys_of_messages_are_the_flags_of_the_short_command(message: str, spelt: str) -> None:
    with flags_typed(FLAGS):
        assert spell_keys(message) == spelt
    assert spell_keys(message) == message


def test_a_key_that_is_an_option_has_its_name() -> None:
    assert suggest_option("limt") is None
    with flags_typed(FLAGS):
        assert [suggest_option(key) for key in ("resumee", "limit", "x")] == [
            "Did you mean '--resume'?",
            "Did you mean '--limit'?",
            None,
        ]
