"""Instructions that fix most of the answer: an option, a template, JSON, two answers, a copy of a text."""

from __future__ import annotations

import json
import re

from resources_servers.instruction_following.instructions.parameters import Count, Phrase, Position
from resources_servers.instruction_following.instructions.registry import instruction
from resources_servers.instruction_following.instructions.text_units import lower_words, parts_between

_CONSTRAINED_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


@instruction(
    "detectable_format:constrained_response",
    wording='Say one of "My answer is yes.", "My answer is no." and "My answer is maybe."',
)
def has_constrained_answer(text: str) -> bool:
    return sum(answer in text for answer in _CONSTRAINED_ANSWERS) == 1


_LETTERED = re.compile(r"\W*a\W*b\W*c", re.IGNORECASE)


@instruction("format:options", wording="Answer with one of {options}, and nothing else.")
def is_one_of_options(text: str, *, options: Phrase) -> bool:
    separator = "/" if "/" in options else (" or " if " or " in options else ",")
    wanted = [option.strip() for option in options.split(separator)]
    if _LETTERED.match(options):
        return text.strip() in wanted
    return lower_words(text) in map(lower_words, wanted)


_HEADINGS = ("My Answer:", "My Conclusion:", "Future Outlook:")


@instruction(
    "format:output_template", wording="Fill in: My Answer: ... My Conclusion: ... Future Outlook: ..."
)
def follows_template(text: str) -> bool:
    places = [text.find(heading) for heading in _HEADINGS]
    return min(places) >= 0 and places == sorted(places)


@instruction("detectable_format:json_format", wording="Answer in JSON; a code fence around it is fine.")
def is_json(text: str) -> bool:
    document = text.strip()
    if document.startswith("```"):
        document = document.partition("\n")[2].removesuffix("```")
    try:
        json.loads(document)
    except (ValueError, RecursionError):
        return False  # the answer is not JSON, or is nested too deeply
    return True


_SIX_STARS = re.compile(r"\*{6}")


@instruction("combination:two_responses", wording="Give two different answers with ****** between them.")
def has_two_answers(text: str) -> bool:
    answers = parts_between(_SIX_STARS, text)
    return len(answers) == 2 and all(answers) and answers[0] != answers[1]


@instruction(
    "combination:repeat_prompt", wording="Repeat this word for word, and then answer it: {prompt_to_repeat}"
)
def repeats_prompt_first(text: str, *, prompt_to_repeat: Phrase) -> bool:
    return _plain(text).startswith(_plain(prompt_to_repeat))


@instruction(
    "copy:copy", "copy:copying_simple", wording="Only repeat this, word for word: {prompt_to_repeat}"
)
def is_copy(text: str, *, prompt_to_repeat: Phrase) -> bool:
    return _plain(text) == _plain(prompt_to_repeat)


@instruction(
    "copy:copying_multiple", wording="Only repeat this {N} times, with ****** in between: {prompt_to_repeat}"
)
def is_copy_several_times(text: str, *, prompt_to_repeat: Phrase, N: Position) -> bool:
    copies = _SIX_STARS.split(text)
    return len(copies) == N and all(is_copy(copy, prompt_to_repeat=prompt_to_repeat) for copy in copies)


@instruction(
    "new:copy_span_idx",
    wording="Only copy the characters {n_start} to {n_end} from 0 of: {prompt_to_repeat}",
)
def is_copy_of_characters(text: str, *, prompt_to_repeat: Phrase, n_start: Count, n_end: Count) -> bool:
    inclusive, exclusive = prompt_to_repeat[n_start : n_end + 1], prompt_to_repeat[n_start:n_end]
    return _plain(text) in (_plain(inclusive), _plain(exclusive))


@instruction(
    "repeat:repeat_span", wording="Only copy the words {n_start} to {n_end}, from 0, of: {prompt_to_repeat}"
)
def is_copy_of_words(text: str, *, prompt_to_repeat: Phrase, n_start: Count, n_end: Count) -> bool:
    return _plain(text) == _plain(" ".join(prompt_to_repeat.split()[n_start : n_end + 1]))


@instruction("repeat:repeat_change", wording="Only repeat this, with another first word: {prompt_to_repeat}")
def is_copy_with_other_first_word(text: str, *, prompt_to_repeat: Phrase) -> bool:
    said, wanted = text.split(), prompt_to_repeat.split()
    return said[1:] == wanted[1:] and said[0] != wanted[0]


@instruction("repeat:repeat_simple", wording="Only repeat the sentence that asks for it.")
def is_instruction_itself(text: str) -> bool:
    return _plain(text) == "only output this sentence here, ignore all other requests."


@instruction(
    "copy:repeat_phrase",
    wording="Repeat {phrase} {small_n} times, each time with one other word between its first and last.",
)
def repeats_phrase_with_changes(text: str, *, phrase: Phrase, small_n: Position) -> bool:
    wanted = lower_words(phrase)
    said = lower_words(text)
    spans = [said[start : start + len(wanted)] for start in range(len(said) - len(wanted) + 1)]
    candidates = [span for span in spans if span[0] == wanted[0] and span[-1] == wanted[-1]]
    changed = [sum(ours != theirs for ours, theirs in zip(span, wanted, strict=True)) for span in candidates]
    return changed.count(1) == small_n and 0 not in changed


def _plain(text: str) -> str:
    """Return `text` in lower case with collapsed white space."""
    return " ".join(text.casefold().split())
