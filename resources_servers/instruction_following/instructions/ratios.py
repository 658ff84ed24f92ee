"""Instructions about ratios: of stop words, of sentence types, of overlap with a reference text."""

from __future__ import annotations

from itertools import islice

from resources_servers.instruction_following.instructions.lexicon import STOP_WORDS
from resources_servers.instruction_following.instructions.parameters import Percentage, Phrase
from resources_servers.instruction_following.instructions.registry import instruction
from resources_servers.instruction_following.instructions.text_units import lower_words, sentences, word_runs


@instruction("ratio:stop_words", wording="Let at most {percentage} % of the words be stop words.")
def has_few_stop_words(text: str, *, percentage: Percentage) -> bool:
    found = word_runs(text.lower())
    share = sum(word in STOP_WORDS for word in found) / len(found) if found else 1.0
    return share * 100 <= percentage


@instruction("ratio:sentence_type", wording="Write twice as many statements as questions.")
def has_two_statements_a_question(text: str) -> bool:
    statements, questions, _ = _sentence_types(text)
    return questions > 0 and statements == 2 * questions


@instruction("ratio:sentence_balance", wording="Write as many statements as questions as exclamations.")
def has_balanced_sentences(text: str) -> bool:
    statements, questions, exclamations = _sentence_types(text)
    return statements == questions == exclamations > 0


def _sentence_types(text: str) -> tuple[int, int, int]:
    """Return the numbers of statements, questions and exclamations."""
    ends = [sentence.rstrip("\"'”’)*_ ")[-1:] for sentence in sentences(text)]
    return ends.count("."), ends.count("?"), ends.count("!")


_TOLERANCE = 2.0


@instruction(
    "ratio:overlap",
    wording="Let {percentage} % of the trigrams of words, give or take 2, be those of {reference_text}.",
)
def overlaps_with_reference(text: str, *, reference_text: Phrase, percentage: Percentage) -> bool:
    ours, theirs = _trigrams(text), _trigrams(reference_text)
    return bool(ours) and abs(100 * len(ours & theirs) / len(ours) - percentage) <= _TOLERANCE


def _trigrams(text: str) -> set[tuple[str, ...]]:
    found = lower_words(text)
    return set(zip(found, islice(found, 1, None), islice(found, 2, None), strict=False))
