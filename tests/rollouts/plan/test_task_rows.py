"""From a line to a task, or to its faults."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from nemo_gym.json_objects import MAX_DEPTH, parse_json
from nemo_gym.prompt import PromptConfig
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, TaskShaper, merge

ROW: dict[str, Any] = {"responses_create_params": {"input": "What is 1+1?"}, "agent_ref": {"name": "mine"}}


def shape(row: Any, **options: Any) -> dict[str, Any]:
    line = row if isinstance(row, bytes) else orjson.dumps(row)
    shaped: dict[str, Any] = orjson.loads(TaskShaper(**options).shape(line).encoded)
    return shaped


def faulty_fields(row: Any, **options: Any) -> list[str]:
    with pytest.raises(FaultyRowError) as caught:
        shape(row, **options)
    return [fault.field for fault in caught.value.faults]


def test_a_row_that_needs_nothing_is_sent_letter_by_letter() -> None:
    line = b'{"responses_create_params": {"input": []}, "agent_ref": {"name": "a"}, "n": 1.23456789012345678901234}'
    assert TaskShaper().shape(line + b"\n").encoded == line


LONG = 1 << 64


@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        ('"n": 18446744073709551616', ["n"]),
        ('"n": -9223372036854775809', ["n"]),
        ('"n": ' + "9" * 308, ["n"]),
        ('"m": {"tests": {"in": [[1, 1180591620717411303424]], "out": [36893488147419103232]}}',
         ["m.tests.in[0][1]", "m.tests.out[0]"]),
        ('"n": 18446744073709551616, "agent_ref": 5', ["n", "agent_ref"]),
        ('"n": 18446744073709551615, "m": -9223372036854775808', []),
        ('"n": 1e30, "m": 123456789012345678901234.0, "text": "123456789012345678901234"', []),
        ('"n": 0.1234567890123456789012345, "text": "\\": 99999999999999999999 "', []),
    ],
)  # fmt: skip
def test_integers_that_readers_round_are_refused(extra: str, fields: list[str]) -> None:
    line = f'{{"responses_create_params": {{"input": []}}, "agent_ref": {{"name": "a"}}, {extra}}}'
    found: list[str] = []
    try:
        assert TaskShaper().shape(line.encode()).encoded == line.encode()
    except FaultyRowError as error:
        found = [fault.field for fault in error.faults]
    assert found == fields
    if '"agent_ref": 5' not in extra:
        found = []
        try:
            TaskShaper().shape_row(parse_json(line))
        except FaultyRowError as error:
            found = [fault.field for fault in error.faults]
        assert found == fields, "and so is a row that is parsed already"


def test_an_option_that_is_a_long_integer_is_refused() -> None:
    assert faulty_fields(ROW, overrides={"metadata": {"n": LONG}}) == ["responses_create_params.metadata.n"]


@pytest.mark.parametrize(
    ("depth", "is_refused"), [(MAX_DEPTH, False), (MAX_DEPTH + 1, True), (300, True), (1000, True)]
)
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_row_that_is_too_deep_is_refused(depth: int, is_refused: bool, opening: str) -> None:
    closing = {"[": "]"}.get(opening, "}")
    deep = opening * (depth - 1) + "1" + closing * (depth - 1)
    line = f'{{"responses_create_params": {{"input": []}}, "agent_ref": {{"name": "a"}}, "deep": {deep}}}'
    if is_refused:
        with pytest.raises(FaultyRowError, match=f"has {depth} levels"):
            TaskShaper(overrides={"temperature": 1.0}).shape(line.encode())
    else:
        TaskShaper(overrides={"temperature": 1.0}).shape(line.encode())


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        (b"{not json", [""]),
        (b"[1, 2]", [""]),
        ({"agent_ref": {"name": "a"}}, ["responses_create_params"]),
        ({}, ["responses_create_params", "agent_ref"]),
        (ROW | {"responses_create_params": [1]}, ["responses_create_params"]),
        (ROW | {"responses_create_params": {}}, ["responses_create_params.input"]),
        (ROW | {"responses_create_params": {"input": 5}}, ["responses_create_params.input"]),
        (ROW | {"responses_create_params": {"input": ["a", {}]}}, ["responses_create_params.input[0]"]),
        (ROW | {"agent_ref": "a"}, ["agent_ref"]),
        (ROW | {"agent_ref": {"type": "responses_api_agents"}}, ["agent_ref.name"]),
    ],
)
def test_every_fault_names_its_field(row: Any, fields: list[str]) -> None:
    assert faulty_fields(row) == fields


def test_a_row_without_an_agent_takes_the_one_given_and_others_keep_theirs() -> None:
    bare = {"responses_create_params": {"input": "x"}}
    assert shape(bare, agent_name="given")["agent_ref"] == {"type": "responses_api_agents", "name": "given"}
    assert shape(bare | {"agent_ref": None}, agent_name="given")["agent_ref"]["name"] == "given"
    assert shape(ROW, agent_name="given")["agent_ref"] == {"name": "mine"}


def test_overrides_are_laid_over_the_parameters_to_any_depth() -> None:
    row = ROW | {"responses_create_params": {"input": "x", "reasoning": {"effort": "low", "summary": "auto"}}}
    shaped = shape(row, overrides={"temperature": 0.5, "reasoning": {"effort": "high"}})
    assert shaped["responses_create_params"] == {
        "input": "x",
        "temperature": 0.5,
        "reasoning": {"effort": "high", "summary": "auto"},
    }


def test_merging_changes_neither_side() -> None:
    base, over = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merge(base, over) == {"a": {"b": 1, "c": 2}}
    assert (base, over) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_a_prompt_makes_the_input_of_rows_that_have_none() -> None:
    shaped = shape({"question": "2+2?"}, prompt=PromptConfig(user="Q: {question}"), agent_name="a")
    assert shaped["responses_create_params"]["input"] == [{"role": "user", "content": "Q: 2+2?"}]


def test_a_prompt_over_an_input_or_without_its_fields_is_a_fault() -> None:
    prompt = PromptConfig(user="Q: {question}")
    assert faulty_fields(ROW | {"question": "x"}, prompt=prompt) == ["responses_create_params.input"]
    assert faulty_fields({"answer": 1}, prompt=prompt, agent_name="a") == ["question"]
    assert faulty_fields({"question": "x", "responses_create_params": 3}, prompt=prompt, agent_name="a") == [
        "responses_create_params"
    ]


def test_keys_of_the_gym_in_a_dataset_are_left_out_and_named() -> None:
    task = TaskShaper().shape(orjson.dumps(ROW | {"_ng_task_index": 5, "_ng_outcome": "completed"}))
    assert task.reserved_keys == ("_ng_task_index", "_ng_outcome")
    assert orjson.loads(task.encoded) == ROW


def test_a_seed_goes_where_model_servers_look_for_it_and_spares_other_extras() -> None:
    extra = {"metadata": {"extra_body": '{"top_k": 5, "seed": 9}', "note": "x"}}
    row = ROW | {"responses_create_params": {"input": "x", **extra}}
    task = TaskShaper(needs_seed=True).shape(orjson.dumps(row))
    metadata = orjson.loads(task.encode_with_seed(3))["responses_create_params"]["metadata"]
    assert metadata["note"] == "x"
    assert orjson.loads(metadata["extra_body"]) == {"top_k": 5, "seed": 3}
    bare = TaskShaper(needs_seed=True).shape(orjson.dumps(ROW))
    assert orjson.loads(bare.encode_with_seed(0))["responses_create_params"]["metadata"] == {
        "extra_body": '{"seed":0}'
    }


@pytest.mark.parametrize(
    "metadata", [{"extra_body": "no json"}, {"extra_body": "[1]"}, {"extra_body": {"a": 1}}, [1]]
)
def test_extras_that_a_seed_cannot_join_are_a_fault(metadata: Any) -> None:
    row = ROW | {"responses_create_params": {"input": "x", "metadata": metadata}}
    assert faulty_fields(row, needs_seed=True) == ["responses_create_params.metadata.extra_body"]
