"""Parsing of instructions, and strict and loose verdicts."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.failures import InputError
from resources_servers.instruction_following.instructions.evaluation import (
    evaluate,
    loose_variants,
    read_instructions,
)

WORD = st.sampled_from(["tea", "milk", "sugar", "cup", "pot", "leaf"])


def test_a_row_becomes_instructions_nulls_aside() -> None:
    found = read_instructions(
        ["count:person_names", "punctuation:no_comma", "keywords:word_count_different_numbers"],
        [{"N": 39.0, "keyword": None}, None, {"keyword": ["tea"], "frequency": 2, "relation": None}],
    )
    assert [instruction.parameters for instruction in found] == [
        {"N": 39},
        {},
        {"keyword": "tea", "frequency": 2, "relation": "exactly"},
    ]
    assert pickle.loads(pickle.dumps(found)) == found


def test_everything_wrong_with_a_row_is_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        read_instructions(
            [
                "punctuation:no_coma",
                "length_constraints:number_words",
                "startend:quotation",
                "keywords:existence",
            ],
            [{}, {"num_words": "many", "relation": "about"}, {"mark": '"'}, {"keywords": []}, {}],
        )
    failure = caught.value.failure
    assert (failure.code, failure.http_status) == ("invalid_row", 422)
    for problem in (
        "kwargs: 5 entries for 4 instructions",
        "instruction_id_list[0]: 'punctuation:no_coma' is unknown; did you mean 'punctuation:no_comma'?",
        "kwargs[1].num_words",
        "kwargs[1].relation",
        "kwargs[2].mark",
        "kwargs[3].keywords",
    ):
        assert problem in failure.message


def test_a_row_without_instructions_cannot_be_graded() -> None:
    with pytest.raises(InputError, match="instruction_id_list: empty"):
        read_instructions([], [])


def test_missing_parameters_are_named_and_not_drawn_at_random() -> None:
    with pytest.raises(InputError, match=r"kwargs\[0\]\.num_words: Field required"):
        read_instructions(["length_constraints:number_words"], [{"relation": "at least"}])


def test_loose_forgives_an_introduction_and_asterisks() -> None:
    instructions = read_instructions(
        [
            "first_word:first_word_answer",
            "length_constraints:number_paragraphs",
            "detectable_format:json_format",
        ],
        [{"first_word": "tea"}, {"num_paragraphs": 1}, {}],
    )
    assert evaluate(instructions, 'Sure:\n{"a": 1}\nDone.') == ([False, True, False], [False, True, True])
    assert evaluate(instructions, "**Tea**") == ([True, True, False], [True, True, False])
    assert evaluate(instructions, "") == ([False] * 3, [False] * 3)


@given(st.text(alphabet="ab*\n ", max_size=30))
def test_loose_variants_differ_from_the_text_and_each_other(text: str) -> None:
    variants = loose_variants(text)
    assert len({text, *variants}) == len(variants) + 1 <= 8


@given(st.text(alphabet="Ab*,.\n ", max_size=40))
def test_a_text_that_passes_strictly_passes_loosely(text: str) -> None:
    kinds = [
        "punctuation:no_comma",
        "change_case:english_lowercase",
        "paragraphs:paragraphs2",
        "format:no_whitespace",
    ]
    verdict = evaluate(read_instructions(kinds, [{}] * len(kinds)), text)
    assert all(loose for strict, loose in zip(verdict.strict, verdict.loose, strict=True) if strict)


@given(st.lists(WORD, min_size=1, max_size=40))
def test_a_text_made_for_an_instruction_follows_it(said: list[str]) -> None:
    text = " ".join(said)
    made_for: dict[str, dict[str, Any]] = {
        "length_constraints:number_words": {"num_words": len(said), "relation": "exactly"},
        "keywords:frequency": {"keyword": said[0], "frequency": said.count(said[0]), "relation": "exactly"},
        "keywords:existence": {"keywords": sorted(set(said))},
        "keywords:forbidden_words": {"forbidden_words": ["coffee", "ot", "lea"]},
        "first_word:first_word_answer": {"first_word": said[0]},
        "last_word:last_word_answer": {"last_word": said[-1]},
        "count:unique_word_count": {"N": len(set(said))},
        "words:repeats": {"small_n": max(map(said.count, said))},
        "letters:letter_counting": {"N": len("".join(said)), "relation": "exactly"},
        "startend:end_checker": {"end_phrase": said[-1]},
        "copy:copy": {"prompt_to_repeat": text},
    }
    instructions = read_instructions(list(made_for), list(made_for.values()))
    assert all(evaluate(instructions, text).strict)


@given(st.integers(1, 6), st.integers(1, 5))
def test_counts_are_exact(sentences: int, paragraphs: int) -> None:
    text = "\n\n".join([" ".join(["This is it."] * sentences)] * paragraphs)
    kinds = ["length_constraints:number_sentences", "length_constraints:nth_paragraph_first_word"]
    right = {"num_sentences": sentences * paragraphs, "relation": "exactly"}
    place = {"num_paragraphs": paragraphs, "nth_paragraph": paragraphs, "first_word": "this"}
    assert evaluate(read_instructions(kinds, [right, place]), text).strict == [True, True]
    wrong = {"num_sentences": sentences * paragraphs + 1, "relation": "exactly"}
    misplaced = {"num_paragraphs": paragraphs + 1, "nth_paragraph": 1, "first_word": "this"}
    assert evaluate(read_instructions(kinds, [wrong, misplaced]), text).strict == [False, False]
