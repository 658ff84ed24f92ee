"""Generated tasks are valid, state their instructions, and are reproducible."""

from __future__ import annotations

import random

import pytest

from nemo_gym.failures import InputError
from resources_servers.instruction_following.instructions.evaluation import read_instructions
from resources_servers.instruction_following.prepare import RECIPES, convert, make_task, worded


def test_every_recipe_draws_parameters_that_can_be_graded() -> None:
    rng = random.Random(1)
    for kind_id, recipe in RECIPES.items():
        read_instructions([kind_id], [recipe.draw(rng)])


def test_tasks_state_their_rules_and_no_two_of_one_aspect() -> None:
    rng = random.Random(2)
    for index in range(300):
        task = make_task(index, rng)
        kind_ids = task["instruction_id_list"]
        assert 1 <= len(kind_ids) <= 4
        assert len({RECIPES[kind_id].aspect for kind_id in kind_ids}) == len(kind_ids)
        for kind_id, kwargs in zip(kind_ids, task["kwargs"], strict=True):
            assert worded(kind_id, kwargs) in task["prompt"]


def test_the_same_seed_makes_the_same_tasks() -> None:
    same = [make_task(0, random.Random(5)) for _ in range(2)]
    assert same[0] == same[1]
    assert make_task(0, random.Random(5)) != make_task(0, random.Random(6))


def test_rows_of_ifeval_are_converted() -> None:
    row = {
        "key": 1000,
        "prompt": "Write 300 words or more without commas.",
        "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
        "kwargs": [{"num_words": None}, {"relation": "at least", "num_words": 300}],
    }
    task = convert(row)
    assert task["id"] == 1000
    assert task["kwargs"] == [{}, {"relation": "at least", "num_words": 300}]
    assert task["responses_create_params"]["input"] == [{"role": "user", "content": row["prompt"]}]
    with pytest.raises(InputError, match="unknown"):
        convert({**row, "instruction_id_list": ["a:b", "punctuation:no_comma"]})
