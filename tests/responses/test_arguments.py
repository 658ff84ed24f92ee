"""Malformed arguments of earlier tool calls, by policy."""

from __future__ import annotations

import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses.arguments import canonical_arguments, check_arguments, is_json_object
from nemo_gym.responses.dialects import BadArguments
from nemo_gym.responses.problems import ConversionProblems

FIELD = "messages[1].tool_calls[0].function.arguments"


@pytest.mark.parametrize(
    "text", ["{}", ' {"a": NaN}', '{"a": Infinity}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}']
)
def test_objects_as_engines_parse_them(text: str) -> None:
    assert is_json_object(text)


@pytest.mark.parametrize("text", ["", "[]", "null", '"{}"', '{"a": 1', "{'a': 1}", "[" * 100_000])
def test_everything_else_is_no_object(text: str) -> None:
    assert not is_json_object(text)


@pytest.mark.parametrize(
    ("policy", "arguments", "sent"),
    [
        (BadArguments.WRAP, '{"a": 1', '{"_raw":"{\\"a\\": 1"}'),
        (BadArguments.WRAP, "  ", "{}"),
        (BadArguments.EMPTY, '{"a": 1', "{}"),
        (BadArguments.KEEP, '{"a": 1', '{"a": 1'),
        (BadArguments.WRAP, '{"a": 1}', '{"a": 1}'),
    ],
)
def test_the_policy_decides_and_a_replacement_is_noted(
    policy: BadArguments, arguments: str, sent: str
) -> None:
    problems = ConversionProblems()
    assert check_arguments(arguments, policy, FIELD, problems) == sent
    assert [note.field for note in problems.notes] == ([FIELD] if sent != arguments else [])
    assert not problems


def test_the_policy_can_refuse_the_request() -> None:
    problems = ConversionProblems()
    check_arguments("[]", BadArguments.REFUSE, FIELD, problems)
    with pytest.raises(InputError, match="not the JSON text of an object") as caught:
        problems.raise_if_any("chat")
    assert caught.value.failure.param == FIELD
    assert problems.notes == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": [2]}', '{"b":[2],"a":1}'),
        ('{"a": "\\u00e9"}', '{"a": "é"}'),
        ('{"a": 1.0, "b": 1e3}', '{"a": 1, "b": 1000}'),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
    ],
)
def test_texts_of_one_value_have_one_canonical_text(one: str, other: str) -> None:
    assert canonical_arguments(one) == canonical_arguments(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1}', '{"a": true}'),
        ('{"a": "1"}', '{"a": 1}'),
        ('{"a": 12345678901234567890123}', '{"a": 12345678901234567890124}'),
        ('{"a": [1, 2]}', '{"a": [2, 1]}'),
        ("{", "{ "),
        ("[" * 99_999, "[" * 99_998),
    ],
    ids=lambda text: text[:40],
)
def test_texts_of_other_values_have_another_canonical_text(one: str, other: str) -> None:
    assert canonical_arguments(one) != canonical_arguments(other)
