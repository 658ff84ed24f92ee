r"""Extraction of the chosen option of a multiple-choice question.

A choice is read at its last explicit mark (a box, an "Answer:" line), and it must name exactly one option: a text that
names several options, or an unknown one, gives None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from string import ascii_uppercase

from nemo_gym.verify.answers import ANSWER_WORDS, last_boxed, last_marked_line, last_tagged
from nemo_gym.verify.matching import normalize

Options = Mapping[str, str]
"""Option texts by letter, A to Z. The text is "" when only the letter is known."""

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
    """Any of these, an `<answer>` tag, or nothing but a letter."""


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
    return _READERS[form](text, options)


def boxed_letter(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.STRICT_BOXED`."""
    content = last_boxed(text)
    return _letter(content, options) if content else None


def boxed_choice(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.LENIENT_BOXED`."""
    content = last_boxed(text)
    return (_letter(content, options) or option_in(content, options)) if content else None


def answer_line_choice(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.ANSWER_LINE`."""
    line = last_marked_line(text, (ANSWER_WORDS,))
    return stated_choice(last_boxed(line) or line, options) if line else None


_LETTER_BEFORE_WORDS = re.compile(r"\W*([A-Za-z])(?!\w)")


def answer_line_choice_before_words(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.ANSWER_LINE_MARKDOWN`."""
    line = last_marked_line(text, (ANSWER_WORDS,))
    if not line:
        return None
    start = _LETTER_BEFORE_WORDS.match(line)
    return answer_line_choice(text, options) or (_known(start[1], options) if start else None)


def lenient_choice(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.LENIENT`."""
    tagged = last_tagged(text)
    return (
        boxed_choice(text, options)
        or (stated_choice(tagged, options) if tagged else None)
        or answer_line_choice_before_words(text, options)
        or bare_letter(text, options)
    )


def stated_choice(statement: str, options: Options) -> str | None:
    """Return the option that a statement names, by its letter in either case or by its whole text."""
    wanted = normalize(_unwrap(statement))
    named = [letter for letter, text in options.items() if text and normalize(text) == wanted]
    if len(named) == 1:
        return named[0]
    return _letter(statement, options) or bare_letter(statement, options)


_BARE = re.compile(r"[\W_]*([A-Za-z])[\W_]*")
_LABEL = re.compile(r"\W*([A-Z])\s*(?:[:).]|-(?=\s))\s*(?P<rest>.*)", re.DOTALL)


def bare_letter(text: str, options: Options) -> str | None:
    """Return the option when `text` is only its letter, in either case, and punctuation."""
    match = _BARE.fullmatch(_unwrap(_in_latin_letters(text)))
    return _known(match[1], options) if match else None


def option_in(text: str, options: Options) -> str | None:
    """Return the only option whose text equals `text`, or else occurs in it."""
    said = normalize(_unwrap(text))
    texts = {letter: normalize(option) for letter, option in options.items() if option}
    equal = [letter for letter, option in texts.items() if option == said]
    within = [letter for letter, option in texts.items() if option and _occurs(option, said)]
    named = equal or within
    return named[0] if len(named) == 1 else None


def _occurs(phrase: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None


def _letter(content: str, options: Options) -> str | None:
    """Return the upper-case letter that `content` consists of or starts with as a label."""
    content = _unwrap(_in_latin_letters(content))
    bare = _BARE.fullmatch(content)
    if bare:
        return bare[1] if bare[1] in options else None
    label = _LABEL.match(content)
    if label is None or label[1] not in options:
        return None
    own_text = options[label[1]]
    is_another_label = _LABEL.match(label["rest"]) or _BARE.fullmatch(label["rest"])
    if is_another_label and normalize(label["rest"]) != normalize(own_text):
        return None
    return label[1]


def _known(letter: str, options: Options) -> str | None:
    return letter.upper() if letter.upper() in options else None


_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf|textrm|mbox)\s*\{([^{}]*)\}")


def _unwrap(content: str) -> str:
    """Remove `\\text{…}` and similar commands, also nested ones."""
    for _ in range(2):
        content = _WRAPPER.sub(r"\1", content)
    return content.strip().strip("$").strip()


_LETTERS_OF_SCRIPTS = str.maketrans("أبجدঅবডঢＡＢＣＤＥＦＧＨＩＪ", "ABCDABCDABCDEFGHIJ")


def _in_latin_letters(text: str) -> str:
    """Replace the option letters of translated benchmarks (Arabic, Bengali, full-width) by A, B, C, ..."""
    return text.translate(_LETTERS_OF_SCRIPTS)


_READERS: Mapping[ChoiceFormat, Callable[[str, Options], str | None]] = {
    ChoiceFormat.STRICT_BOXED: boxed_letter,
    ChoiceFormat.LENIENT_BOXED: boxed_choice,
    ChoiceFormat.ANSWER_LINE: answer_line_choice,
    ChoiceFormat.ANSWER_LINE_MARKDOWN: answer_line_choice_before_words,
    ChoiceFormat.LENIENT: lenient_choice,
}
