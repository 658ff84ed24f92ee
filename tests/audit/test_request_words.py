from __future__ import annotations

import pytest

from nemo_gym.audit.request_words import RequestWords, find_words, reads_by_name


def test_words_are_compared_in_their_basic_form() -> None:
    assert find_words("Evacuations") == find_words("evacuate")
    assert find_words("Rent helmets") >= find_words("helmet")
    assert find_words("ing-green-peas") == {"ing", "green", "peas"}
    assert find_words("the new item and all names") == set()


def test_a_tool_reads_by_a_whole_word_of_its_name() -> None:
    assert reads_by_name("email_search_emails")
    assert not reads_by_name("target_listing")


def test_a_condition_takes_the_weight_from_a_mention() -> None:
    request = RequestWords("Buy oat milk. If it is out, soy is fine.")
    assert request.asks_for({"oat", "soy"}) == {"oat"}


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Harvest any lettuce that is ready.", True),
        ("Harvest some lettuce. Check all beds.", False),
        ("If all are ready, harvest them.", False),
        ("Every time you harvest, write it down.", True),
    ],
)
def test_all_must_be_said_in_the_same_sentence(text: str, asks: bool) -> None:
    assert RequestWords(text).asks_for_all({"harvest"}) is asks


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Move 150 residents, at 26C, for $1,200.50.", [150, 26, 1200.5]),
        ("At least 33 points, under $50, and about 4 of them.", []),
        ("12 kg and v1.2.3 and A-7.", [12]),
    ],
)
def test_bounds_and_estimates_are_no_exact_numbers(text: str, numbers: list[float]) -> None:
    assert RequestWords(text).numbers == numbers


def test_dictated_numbers_stand_one_after_the_other() -> None:
    request = RequestWords("He gave her 8, 7, 8, and 9.")
    assert request.dictates([7, 8, 9])
    assert not request.dictates([8, 8])
