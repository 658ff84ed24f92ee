"""Instructions about the start and the end of a text, its sentences and its paragraphs."""

from __future__ import annotations

from itertools import pairwise

from resources_servers.instruction_following.instructions.lexicon import VERB_FORMS
from resources_servers.instruction_following.instructions.parameters import Phrase
from resources_servers.instruction_following.instructions.registry import instruction
from resources_servers.instruction_following.instructions.text_units import lines, lower_words, sentences


@instruction("startend:start_checker", wording="Start with {start_phrase}.")
def starts_with(text: str, *, start_phrase: Phrase) -> bool:
    return text.strip().lstrip('"').casefold().startswith(start_phrase.casefold())


@instruction("startend:end_checker", wording="End with {end_phrase}.")
def ends_with(text: str, *, end_phrase: Phrase) -> bool:
    return text.strip().rstrip('"').casefold().endswith(end_phrase.casefold().rstrip('"'))


@instruction("startend:quotation", wording="Put the whole answer in double quotation marks.")
def is_quoted(text: str) -> bool:
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


@instruction("keywords:start_end", wording="Start and end with the same word, with nothing after it.")
def starts_and_ends_alike(text: str) -> bool:
    found = lower_words(text)
    return len(found) > 1 and found[0] == found[-1] and text.rstrip().lower().endswith(found[-1])


@instruction("first_word:first_word_answer", wording="Start with the word {first_word}.")
def has_first_word(text: str, *, first_word: Phrase) -> bool:
    return lower_words(text)[:1] == [first_word.lower()]


@instruction("first_word:first_word_sent", wording="Start every sentence with the word {first_word}.")
def has_first_word_in_sentences(text: str, *, first_word: Phrase) -> bool:
    found = sentences(text)
    return bool(found) and all(lower_words(sentence)[:1] == [first_word.lower()] for sentence in found)


@instruction("last_word:last_word_answer", wording="End with the word {last_word}.")
def has_last_word(text: str, *, last_word: Phrase) -> bool:
    return lower_words(text)[-1:] == [last_word.lower()]


@instruction("last_word:last_word_sent", wording="End every sentence with the word {last_word}.")
def has_last_word_in_sentences(text: str, *, last_word: Phrase) -> bool:
    found = sentences(text)
    return bool(found) and all(lower_words(sentence)[-1:] == [last_word.lower()] for sentence in found)


@instruction("words:last_first", wording="Start each sentence with the last word of the one before.")
def chains_sentences(text: str) -> bool:
    found = [lower_words(sentence) for sentence in sentences(text)]
    return len(found) > 1 and all(earlier[-1:] == later[:1] for earlier, later in pairwise(found))


@instruction("words:paragraph_last_first", wording="End each paragraph, of one line, with its first word.")
def ends_paragraphs_as_started(text: str) -> bool:
    found = [lower_words(line) for line in lines(text)]
    return all(len(paragraph) > 1 and paragraph[0] == paragraph[-1] for paragraph in found if paragraph)


@instruction("words:start_verb", wording="Start with a verb.")
def starts_with_verb(text: str) -> bool:
    return any(word in VERB_FORMS for word in lower_words(text)[:1])


@instruction(
    "custom:sentence_alphabet",
    wording="Write 26 sentences whose first words start with the letters of the alphabet in order.",
)
def has_alphabetical_sentences(text: str) -> bool:
    initials = [(lower_words(sentence) or [""])[0][:1] for sentence in sentences(text)]
    return "".join(initials) == "abcdefghijklmnopqrstuvwxyz"
