from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.config._overrides import parse_overrides
from nemo_gym.config.problems import Problems
from nemo_gym.config.spelling import spell
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
