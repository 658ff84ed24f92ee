from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import example, given
from hypothesis import strategies as st

from nemo_gym.config._plain_values import is_plain_key, parse_plain_value

_HYDRA = OverridesParser.create()
_ITEMS = st.text("aAeEfInNtTu_019-+./:$ ", max_size=6) | st.sampled_from(
    ["true", "NULL", "Inf", "nan", "-1.50"]
)
_VALUES = _ITEMS | st.lists(_ITEMS, max_size=3).map(lambda items: f"[{' , '.join(items)}]")


@given(_VALUES.map(str.strip))
@example("-0")
@example("01")
@example("1.")
@example("a:")
@example("../x-1.5")
@example("[ ]")
@example("[a,]")
def test_a_plain_value_is_the_one_of_hydras_grammar(text: str) -> None:
    try:
        plain = parse_plain_value(text)
    except ValueError:
        return
    try:
        theirs = _HYDRA.parse_override(f"+key={text}").value()
    except HydraException as error:
        raise AssertionError(f"Hydra refuses {text!r}") from error
    assert repr(plain) == repr(theirs)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[configs/demo.yaml, b.yaml]", ["configs/demo.yaml", "b.yaml"]),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("../results/math.jsonl", "../results/math.jsonl"),
        ("-3", -3),
        ("0.7", 0.7),
        ("TRUE", True),
        ("null", None),
        ("[]", []),
    ],
)
def test_values_that_users_type_are_plain(text: str, value: Any) -> None:
    assert parse_plain_value(text) == value


@pytest.mark.parametrize(
    "text", ["", "'a'", "a b", "1,2", "{a: 1}", "[[1]]", "${a}", "range(1,3)", "1e-3", "+1"]
)
def test_other_values_are_left_to_hydra(text: str) -> None:
    with pytest.raises(ValueError, match="needs a grammar"):
        parse_plain_value(text)


def test_infinity_and_nan_are_constants() -> None:
    assert parse_plain_value("inf") == math.inf
    assert math.isnan(parse_plain_value("NaN"))


@given(st.from_regex(r"[aZ_][aZ_0-]{0,2}(\.[aZ_][0_-]{0,2}){0,2}", fullmatch=True))
def test_a_plain_key_is_one_of_hydras_grammar(key: str) -> None:
    assert is_plain_key(key)
    assert _HYDRA.parse_override(f"+{key}=1").key_or_group == key


def test_plain_overrides_load_no_parser() -> None:
    program = (
        "import sys; from nemo_gym.config._overrides import parse_overrides; "
        "from nemo_gym.config.problems import Problems; "
        "parse_overrides(['+config_paths=[a.yaml]', '++limit=3', '--json'], Problems()); "
        "print('hydra' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
