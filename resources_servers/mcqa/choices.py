r"""Extraction of the chosen option of a multiple-choice question.

A choice is read at its last explicit mark (a box, an "Answer:" line), and it must name exactly one option: a text that
names several options, or an unknown one, gives None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from string import ascii_uppercase
from typing import NamedTuple

from nemo_gym.verify.answer_boxes import find_box, last_boxed, write_braces
from nemo_gym.verify.answer_marks import ANSWER_WORDS, WEAK_ANSWER_MARKS
from nemo_gym.verify.answers import (
    MAX_SEARCHED_CHARS,
    find_json,
    find_marked_line,
    find_tag,
    last_marked_line,
)
from nemo_gym.verify.corrections import find_retraction
from nemo_gym.verify.sentences import split_sentences
from resources_servers.mcqa.boxes import is_last_box_denied
from resources_servers.mcqa.conclusions import find_conclusion, is_supposed
from resources_servers.mcqa.lone_names import find_lone_letter, find_lone_name
from resources_servers.mcqa.option_texts import Options
from resources_servers.mcqa.statements import MAX_CHARS, find_by_text, find_labelled, find_lettered
from resources_servers.mcqa.suppositions import is_counterfactual, strip_suppositions

ANY_LETTER: Options = dict.fromkeys(ascii_uppercase, "")
"""The options of a question without a list of options."""


class ChoiceFormat(StrEnum):
    """The required form of the choice; the names are those of the ecosystem's datasets."""

    STRICT_BOXED = "strict_single_letter_boxed"
    """An upper-case letter in a box, alone or before its text: `\\boxed{B}`, `\\boxed{B: Paris}`."""
    LENIENT_BOXED = "lenient_boxed"
    """The same, or an option's text in the box."""
    ANSWER_LINE = "lenient_answer_colon"
    """A letter or an option's text after "Answer:" or "the answer is"."""
    ANSWER_LINE_MARKDOWN = "lenient_answer_colon_md"
    """The same; words may follow the letter ("Answer: B because ...")."""
    LENIENT = "lenient"
    """Any of these, an `<answer>` tag, a JSON object, a sentence that concludes, or nothing but an option's name."""


def read_options(entries: Iterable[Mapping[str, str | None]]) -> dict[str, str]:
    """Parse the options of a dataset row, `[{"A": "Paris"}, {"B": "Rome"}]`. Null texts are ignored.

    Raises ValueError for a key that is not one letter and for a duplicate letter.
    """
    options: dict[str, str] = {}
    for key, text in ((key, text) for entry in entries for key, text in entry.items()):
        letter = key.strip().upper()
        if letter not in ANY_LETTER:
            raise ValueError(f"the option key {key!r} is not a letter")
        if letter in options:
            raise ValueError(f"the option {letter} is listed twice")
        if text is not None:
            options[letter] = text
    return options


def read_choice(text: str, options: Options, form: ChoiceFormat) -> str | None:
    """Return the letter of the option that `text` chooses in the given form; None when it chooses none."""
    return _READERS[form](text[-MAX_SEARCHED_CHARS:], options)


def boxed_letter(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.STRICT_BOXED`."""
    content = None if is_last_box_denied(text) else last_boxed(text)
    return find_lettered(content, options, may_explain=False, is_strict=True) if content else None


def boxed_choice(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.LENIENT_BOXED`."""
    content = None if is_last_box_denied(text) else last_boxed(text)
    if not content:
        return None
    letter = find_lettered(content, options, may_explain=False)
    return letter or find_by_text(content, options, may_explain=True)


def answer_line_choice(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.ANSWER_LINE`."""
    line = _last_line(text)
    return stated_choice(line, options) if line else None


def answer_line_choice_before_words(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.ANSWER_LINE_MARKDOWN`."""
    line = _last_line(text)
    return stated_choice(line, options, may_explain=True) if line else None


def _last_line(text: str) -> str | None:
    line = last_marked_line(text, (ANSWER_WORDS,)) or last_marked_line(text, WEAK_ANSWER_MARKS)
    return None if line and line == last_boxed(text) and is_last_box_denied(text) else line


def lenient_choice(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.LENIENT`. The last statement of a choice counts, and one that is taken back is none."""
    text = write_braces(text)
    stated = strip_suppositions(text)
    choice = _read_statements(stated, options)
    is_unreal = choice is None and stated != text and is_counterfactual(text)
    return choice if choice is not None or stated == text or is_unreal else _read_statements(text, options)


def _read_statements(text: str, options: Options) -> str | None:
    marked = list(_find_marked(text, options))
    if not marked:
        return _find_unmarked(text, options)
    last = min(marked, key=lambda mark: (mark.letter is None, len(mark.rest)))
    conclusion = find_conclusion(last.rest, options)
    if conclusion is not None:
        return conclusion.letter
    return find_lone_letter(last.rest, options) or last.letter


class _Marked(NamedTuple):
    letter: str | None
    rest: str
    """The text after the mark, which may state another choice."""


def _find_marked(text: str, options: Options) -> Iterator[_Marked]:
    """Yield the last box, the last tag and the last answer line of a text."""
    box, tag, line = find_box(text), find_tag(text), find_marked_line(text, (ANSWER_WORDS,))
    if box is not None:
        yield _Marked(boxed_choice(text, options), box.rest)
    if tag is not None:
        yield _Marked(stated_choice(tag.answer, options, may_explain=True), tag.rest)
    line = line if line and line.answer else find_marked_line(text, WEAK_ANSWER_MARKS)
    if line is not None and not ((box or tag) and is_supposed(line.lead)):
        is_kept = find_retraction(line.answer[1:]) is None
        letter = answer_line_choice_before_words(text, options) if is_kept else None
        later = [] if letter else split_sentences(line.answer)[not line.answer.startswith("not ") :]
        yield _Marked(letter, "\n".join([*later, line.rest]))


def _find_unmarked(text: str, options: Options) -> str | None:
    answer = find_json(text, _NAMES_IN_JSON)
    if answer is not None:
        return stated_choice(answer.answer, options)
    choice = bare_choice(text, options) or _find_explained(text, options)
    conclusion = None if choice else find_conclusion(text, options)
    return conclusion.letter if conclusion is not None else choice or find_lone_name(text, options)


_NAMES_IN_JSON = ("final_answer", "answer", "choice", "option", "letter")
_EXPLAINED = re.compile(
    r"\W*[A-Z]\W*\s(?:because|since|due\s+to|given\s+that)\b|\W*[A-Z]\)?(?:\s+\([^()\n]*\)[\W]*\Z"
    r"|(?:,|\s[–—-])\s+(?:not?|without|of\s+course|as|hands\s+down|and\s+(?:not|nothing)|by\s+(?:elimination|far))\b[^\n]*\Z)"
)


def _find_explained(text: str, options: Options) -> str | None:
    """Return the option of a text that is a letter and its reason or a remark: "B because ...", "B, not A"."""
    return find_lettered(text, options, may_explain=True) if _EXPLAINED.match(text) else None


def stated_choice(statement: str, options: Options, *, may_explain: bool = False) -> str | None:
    """Return the option that a statement names, by its whole text or by its letter in either case.

    `may_explain`: words may follow the name ("B because ...").
    """
    statement = last_boxed(statement) or statement
    return find_by_text(statement, options, may_explain=may_explain) or find_lettered(
        statement, options, may_explain=may_explain
    )


def bare_choice(text: str, options: Options) -> str | None:
    """Return the option when `text` is only its letter, in either case, or its letter and its text."""
    is_letter = sum(character.isalnum() for character in text[:MAX_CHARS]) == 1
    return (
        find_lettered(text, options, may_explain=False)
        if is_letter
        else find_labelled(text.strip("` \n"), options)
    )


_READERS: Mapping[ChoiceFormat, Callable[[str, Options], str | None]] = {
    ChoiceFormat.STRICT_BOXED: boxed_letter,
    ChoiceFormat.LENIENT_BOXED: boxed_choice,
    ChoiceFormat.ANSWER_LINE: answer_line_choice,
    ChoiceFormat.ANSWER_LINE_MARKDOWN: answer_line_choice_before_words,
    ChoiceFormat.LENIENT: lenient_choice,
}
