"""Instructions about given words: presence, frequency and position."""

from __future__ import annotations

from resources_servers.instruction_following.instructions.parameters import (
    Count,
    Phrase,
    Phrases,
    Position,
    Relation,
    holds,
)
from resources_servers.instruction_following.instructions.registry import instruction
from resources_servers.instruction_following.instructions.text_units import (
    occurrences,
    sentences,
    whole_occurrences,
    words,
)


@instruction("keywords:existence", wording="Use all of these words: {keywords}.")
def uses_keywords(text: str, *, keywords: Phrases) -> bool:
    return all(occurrences(keyword, text) for keyword in keywords)


@instruction("keywords:frequency", wording="Use {keyword} {relation} {frequency} times.")
def uses_keyword_often(text: str, *, keyword: Phrase, frequency: Count, relation: Relation) -> bool:
    return holds(occurrences(keyword, text), relation, frequency)


@instruction("keywords:word_count_different_numbers", wording="Use {keyword} {relation} {frequency} times.")
def uses_keyword_so_often(
    text: str, *, keyword: Phrase, frequency: Count, relation: Relation = "exactly"
) -> bool:
    return holds(occurrences(keyword, text), relation, frequency)


@instruction("keywords:word_once", wording="Use {keyword} exactly once.")
def uses_keyword_once(text: str, *, keyword: Phrase) -> bool:
    return occurrences(keyword, text) == 1


@instruction("count:count_increment_word", wording="Use {keyword1} once and {keyword2} twice.")
def uses_two_keywords(text: str, *, keyword1: Phrase, keyword2: Phrase) -> bool:
    return occurrences(keyword1, text) == 1 and occurrences(keyword2, text) == 2


@instruction(
    "count:keywords_multiple",
    wording="Use {keyword1} once, {keyword2} twice, {keyword3} three, {keyword4} five and {keyword5} seven times.",
)
def uses_five_keywords(
    text: str, *, keyword1: Phrase, keyword2: Phrase, keyword3: Phrase, keyword4: Phrase, keyword5: Phrase
) -> bool:
    wanted = zip((keyword1, keyword2, keyword3, keyword4, keyword5), (1, 2, 3, 5, 7), strict=True)
    return all(whole_occurrences(keyword, text) == count for keyword, count in wanted)


@instruction("keywords:forbidden_words", wording="Use none of these words: {forbidden_words}.")
def avoids_words(text: str, *, forbidden_words: Phrases) -> bool:
    return not any(whole_occurrences(word, text) for word in forbidden_words)


@instruction("keywords:exclude_word_harder", wording="Don't use {keyword}.")
def avoids_word(text: str, *, keyword: Phrase) -> bool:
    return not whole_occurrences(keyword, text)


@instruction("sentence:keyword", wording="Use {word} in sentence {N}.")
def uses_keyword_in_sentence(text: str, *, word: Phrase, N: Position) -> bool:
    found = sentences(text)
    return len(found) >= N and whole_occurrences(word, found[N - 1]) > 0


@instruction(
    "keywords:keyword_specific_position",
    "words:keywords_specific_position",
    wording="Use {keyword} as word {m} of sentence {n}.",
)
def has_keyword_at(text: str, *, keyword: Phrase, n: Position, m: Position) -> bool:
    found = sentences(text)
    if len(found) < n:
        return False
    sentence = words(found[n - 1])
    return len(sentence) >= m and sentence[m - 1].casefold() == keyword.casefold()


@instruction("words:words_position", wording="Have {keyword} as the second and as the second to last word.")
def has_keyword_near_both_ends(text: str, *, keyword: Phrase) -> bool:
    found = [word.casefold() for word in words(text)]
    return len(found) >= 2 and found[1] == found[-2] == keyword.casefold()
