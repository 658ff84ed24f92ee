"""Instructions about characters: case, punctuation, and the spelling of every word."""

from __future__ import annotations

import re
from itertools import pairwise

from resources_servers.instruction_following.instructions.languages import language_of
from resources_servers.instruction_following.instructions.lexicon import MINOR_WORDS
from resources_servers.instruction_following.instructions.parameters import Count, Relation, holds
from resources_servers.instruction_following.instructions.registry import instruction
from resources_servers.instruction_following.instructions.text_units import (
    first_letters,
    lines,
    lower_words,
    sentences,
    words,
)


@instruction("change_case:english_capital", wording="Answer in English and in capital letters only.")
def is_english_in_capitals(text: str) -> bool:
    return text.isupper() and language_of(text) in ("en", None)


@instruction("change_case:english_lowercase", wording="Answer in English and without capital letters.")
def is_english_in_lower_case(text: str) -> bool:
    return text.islower() and language_of(text) in ("en", None)


@instruction(
    "change_case:capital_word_frequency",
    wording="Write {capital_relation} {capital_frequency} words in capital letters.",
)
def has_capital_words(text: str, *, capital_frequency: Count, capital_relation: Relation) -> bool:
    return holds(sum(word.isupper() for word in words(text)), capital_relation, capital_frequency)


@instruction("punctuation:no_comma", wording="Use no comma.")
def has_no_comma(text: str) -> bool:
    return not any(comma in text for comma in ",，、،")


@instruction("punctuation:punctuation_dot", wording="Use no dot.")
def has_no_dot(text: str) -> bool:
    return "." not in text


@instruction("punctuation:punctuation_exclamation", wording="Use no exclamation mark.")
def has_no_exclamation_mark(text: str) -> bool:
    return not any(mark in text for mark in "!！")


@instruction("format:title_case", wording="Start every word but minor ones with a capital letter.")
def is_in_title_case(text: str) -> bool:
    found = [word for word in words(text) if word[0].isalpha()]
    return bool(found) and all(
        word[0].isupper() or not word[0].islower() or (place > 0 and word in MINOR_WORDS)
        for place, word in enumerate(found)
    )


@instruction("format:no_whitespace", wording="Use no white space.")
def has_no_white_space(text: str) -> bool:
    return not any(map(str.isspace, text))


@instruction(
    "keywords:no_adjacent_consecutive",
    wording="Let no two neighbouring words start with letters that follow each other in the alphabet.",
)
def has_no_consecutive_initials(text: str) -> bool:
    return not any(ord(second) - ord(first) == 1 for first, second in pairwise(first_letters(text)))


@instruction("words:no_consecutive", wording="Let no two neighbouring words start with the same letter.")
def has_no_repeated_initials(text: str) -> bool:
    return not any(first == second for first, second in pairwise(first_letters(text)))


@instruction("words:alphabet", wording="Start each word with the next letter of the alphabet, A after Z.")
def has_initials_in_alphabetical_order(text: str) -> bool:
    initials = first_letters(text)
    if not initials or not all("a" <= letter <= "z" for letter in initials):
        return False
    return all((ord(second) - ord(first)) % 26 == 1 for first, second in pairwise(initials))


@instruction("words:vowel", wording="Write one paragraph with at most three different vowels.")
def has_three_vowels(text: str) -> bool:
    return len(lines(text)) == 1 and len(set("aeiou").intersection(text.lower())) <= 3


_CONSONANT_CLUSTER = re.compile(r"[b-df-hj-np-tv-z]{2}")


@instruction("words:consonants", wording="Use only words with two consonants next to each other.")
def has_consonant_clusters(text: str) -> bool:
    return all(_CONSONANT_CLUSTER.search(word) for word in lower_words(text))


_PRIMES = frozenset({2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47})


@instruction("words:prime_lengths", wording="Use only words whose number of letters is prime.")
def has_prime_lengths(text: str) -> bool:
    return all(sum(map(str.isalnum, word)) in _PRIMES for word in words(text))


@instruction("keywords:palindrome", wording="Use a palindrome: a word of three or more letters.")
def has_palindrome(text: str) -> bool:
    return any(_is_palindrome(word, at_least=3) for word in lower_words(text))


@instruction("words:palindrome", wording="Use ten one-word palindromes of five or more letters.")
def has_ten_palindromes(text: str) -> bool:
    return sum(_is_palindrome(word, at_least=5) for word in lower_words(text)) >= 10


def _is_palindrome(word: str, *, at_least: int) -> bool:
    return len(word) >= at_least and word.isalpha() and word == word[::-1]


_VOWEL_GROUP = re.compile(r"[aeiouy]+")
_SILENT_END = re.compile(r"(?<=[^aeiouyl])es?$|(?<=[aeiouy][^aeiouytd])ed$|(?<=[aeiou]l)e$")


def syllables(word: str) -> int:
    """Estimate the syllables of an English word: its groups of vowels without a silent end; at least one."""
    letters = "".join(filter(str.isalpha, word.lower()))
    return max(1, len(_VOWEL_GROUP.findall(_SILENT_END.sub("", letters))))


@instruction("words:odd_even_syllables", wording="Alternate words of an odd and an even number of syllables.")
def alternates_syllables(text: str) -> bool:
    parities = [syllables(word) % 2 for word in words(text)]
    return len(parities) > 1 and all(first != second for first, second in pairwise(parities))


@instruction(
    "sentence:alliteration_increment",
    wording="Let each sentence have a longer run of words with the same initial than the one before.",
)
def has_growing_alliteration(text: str) -> bool:
    runs = [_longest_alliteration(first_letters(sentence)) for sentence in sentences(text)]
    return len(runs) > 1 and all(earlier < later for earlier, later in pairwise(runs))


def _longest_alliteration(initials: list[str]) -> int:
    longest = run = 1 if initials else 0
    for first, second in pairwise(initials):
        run = run + 1 if first == second else 1
        longest = max(longest, run)
    return longest
