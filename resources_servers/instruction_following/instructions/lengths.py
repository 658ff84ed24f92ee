"""Instructions about counts of words, sentences, paragraphs, letters and numbers."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from resources_servers.instruction_following.instructions.lexicon import (
    COORDINATING_CONJUNCTIONS,
    PERSON_NAMES,
    PRONOUNS,
)
from resources_servers.instruction_following.instructions.parameters import (
    Character,
    Count,
    Phrase,
    Position,
    Relation,
    holds,
)
from resources_servers.instruction_following.instructions.registry import instruction
from resources_servers.instruction_following.instructions.text_units import (
    divided_paragraphs,
    lower_words,
    paragraphs,
    sentences,
    whole_occurrences,
    word_runs,
    words,
)


@instruction("length_constraints:number_words", wording="Use {relation} {num_words} words.")
def has_number_of_words(text: str, *, num_words: Count, relation: Relation) -> bool:
    return holds(len(word_runs(text)), relation, num_words)


@instruction("count:word_count_range", wording="Use between {min_words} and {max_words} words.")
def has_words_in_range(text: str, *, min_words: Count, max_words: Count) -> bool:
    return min_words <= len(word_runs(text)) <= max_words


@instruction("length_constraints:number_sentences", wording="Write {relation} {num_sentences} sentences.")
def has_number_of_sentences(text: str, *, num_sentences: Count, relation: Relation) -> bool:
    return holds(len(sentences(text)), relation, num_sentences)


@instruction(
    "length_constraints:number_paragraphs",
    wording="Write {num_paragraphs} paragraphs with the divider *** between them.",
)
def has_number_of_paragraphs(text: str, *, num_paragraphs: Count) -> bool:
    found = divided_paragraphs(text)
    return len(found) == num_paragraphs and all(found)


@instruction("paragraphs:paragraphs", wording="Write two paragraphs with the divider *** between them.")
def has_two_divided_paragraphs(text: str) -> bool:
    return has_number_of_paragraphs(text, num_paragraphs=2)


@instruction("paragraphs:paragraphs2", wording="Write two paragraphs with a blank line between them.")
def has_two_paragraphs(text: str) -> bool:
    return len(paragraphs(text)) == 2


@instruction(
    "length_constraints:nth_paragraph_first_word",
    wording="Write {num_paragraphs} paragraphs with blank lines between them; "
    "paragraph {nth_paragraph} starts with the word {first_word}.",
)
def has_paragraph_starting_with(
    text: str, *, num_paragraphs: Position, nth_paragraph: Position, first_word: Phrase
) -> bool:
    found = paragraphs(text)
    if len(found) != num_paragraphs or nth_paragraph > num_paragraphs:
        return False
    return lower_words(found[nth_paragraph - 1])[:1] == [first_word.lower()]


@instruction(
    "count:counting_composition",
    wording="Write 3 paragraphs with the divider * * * between them, "
    "each of {n_sent} sentences of {n_words} words each.",
)
def has_composition(text: str, *, n_sent: Position, n_words: Position) -> bool:
    found = [sentences(paragraph) for paragraph in divided_paragraphs(text)]
    return len(found) == 3 and all(
        len(paragraph) == n_sent and all(len(words(sentence)) == n_words for sentence in paragraph)
        for paragraph in found
    )


@instruction("sentence:increment", wording="Give each sentence {small_n} words more than the one before.")
def has_growing_sentences(text: str, *, small_n: Count) -> bool:
    lengths = [len(words(sentence)) for sentence in sentences(text)]
    return len(lengths) > 1 and all(later == earlier + small_n for earlier, later in pairwise(lengths))


@instruction(
    "ratio:sentence_words",
    wording="Write three sentences of the same number of characters with no word in common.",
)
def has_three_equally_long_sentences(text: str) -> bool:
    found = sentences(text)
    is_equally_long = len(found) == 3 and len(set(map(len, found))) == 1
    return is_equally_long and has_no_repeated_word(text)


@instruction("count:count_unique", wording="Use no word twice.")
def has_no_repeated_word(text: str) -> bool:
    return repeats_words_at_most(text, small_n=1)


@instruction("words:repeats", wording="Use no word more than {small_n} times.")
def repeats_words_at_most(text: str, *, small_n: Position) -> bool:
    return max(Counter(lower_words(text)).values(), default=0) <= small_n


@instruction("count:unique_word_count", wording="Use at least {N} different words.")
def has_different_words(text: str, *, N: Count) -> bool:
    return len(set(lower_words(text))) >= N


_LOWER_CASE_WORD = re.compile(r"\b[a-z]+\b")


@instruction("count:lowercase_counting", wording="Use at most {N} words in lower case.")
def has_few_lower_case_words(text: str, *, N: Count) -> bool:
    return len(_LOWER_CASE_WORD.findall(text)) <= N


@instruction("letters:letter_counting", wording="Use {relation} {N} letters.")
def has_number_of_letters(text: str, *, N: Count, relation: Relation) -> bool:
    return holds(sum(map(str.isalpha, text)), relation, N)


@instruction(
    "keywords:letter_frequency",
    "letters:letter_counting2",
    wording="Use the letter {letter} {let_relation} {let_frequency} times.",
)
def has_letter_often(text: str, *, letter: Character, let_frequency: Count, let_relation: Relation) -> bool:
    return holds(text.lower().count(letter.lower()), let_relation, let_frequency)


_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@instruction("count:numbers", wording="Use exactly {N} numbers.")
def has_numbers(text: str, *, N: Count) -> bool:
    return len(_NUMBER.findall(text)) == N


@instruction("count:conjunctions", wording="Use at least {small_n} different coordinating conjunctions.")
def has_conjunctions(text: str, *, small_n: Count) -> bool:
    return len(COORDINATING_CONJUNCTIONS.intersection(lower_words(text))) >= small_n


@instruction("count:pronouns", wording="Use at least {N} pronouns.")
def has_pronouns(text: str, *, N: Count) -> bool:
    return sum(word in PRONOUNS for word in word_runs(text.lower())) >= N


@instruction(
    "count:person_names", wording="Use at least {N} different person names of the list that IFBench gives."
)
def has_person_names(text: str, *, N: Count) -> bool:
    return sum(whole_occurrences(name, text) > 0 for name in PERSON_NAMES) >= N


_PUNCTUATION_MARKS = frozenset(".,!?;:")
_INTERROBANG = re.compile(r"\?!|!\?|‽")


@instruction("count:punctuation", wording="Use each of . , ! ? ; : and, apart from them, the interrobang ?!")
def has_every_punctuation_mark(text: str) -> bool:
    rest = _INTERROBANG.sub("", text, count=1)
    return rest != text and _PUNCTUATION_MARKS.issubset(rest)
