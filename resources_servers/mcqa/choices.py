r"""Extraction of the chosen option of a multiple-choice question.

A choice is read at its last explicit mark (a box, an "Answer:" line), and it must name exactly one option: a text that
names several options, or an unknown one, gives None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from string import ascii_uppercase

from nemo_gym.verify.answers import (
    ANSWER_WORDS,
    MAX_SEARCHED_CHARS,
    last_boxed,
    last_marked_line,
    last_tagged,
)
from nemo_gym.verify.matching import DENIAL, normalize, says

Options = Mapping[str, str]
"""Option texts by letter, A to Z. The text is "" when only the letter is known."""

ANY_LETTER: Options = dict.fromkeys(ascii_uppercase, "")
"""The options of a question without a list of options."""


MAX_STATEMENT_CHARS = 5_000
"""A longer statement of a choice picks nothing."""


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
    return _READERS[form](text[-MAX_SEARCHED_CHARS:], options)


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


_LETTER_BEFORE_WORDS = re.compile(
    r"\W*(?P<letter>[A-Za-z])(?![\w'’])(?P<mark>\s*[:).,;]|\s+[-–—]|)(?P<rest>.*)", re.DOTALL
)
_ARTICLES = frozenset("aAI")
_REASON = re.compile(r"\W*(?:because|since|as|given|due|for)\b", re.IGNORECASE)


def answer_line_choice_before_words(text: str, options: Options) -> str | None:
    """See `ChoiceFormat.ANSWER_LINE_MARKDOWN`."""
    line = last_marked_line(text, (ANSWER_WORDS,))
    if not line:
        return None
    return answer_line_choice(text, options) or _letter_before_words(line, options)


def _letter_before_words(line: str, options: Options) -> str | None:
    """Return the letter that a line starts with. An article ("a mystery") is no letter."""
    start = _LETTER_BEFORE_WORDS.match(line) if len(line) <= MAX_STATEMENT_CHARS else None
    letter = _known(start["letter"], options) if start else None
    if start is None or letter is None:
        return None
    is_marked = bool(start["mark"]) or not start["rest"].strip() or _REASON.match(start["rest"]) is not None
    is_own_text = normalize(start["rest"]) == normalize(options[letter]) != ""
    if not is_marked and not is_own_text and (start["letter"] in _ARTICLES or start["letter"].islower()):
        return None
    return letter if _is_only_choice(letter, start["rest"], options) else None


_OTHER_OPTION = re.compile(
    r"(?:(?<!\w)(?:or|and|vs\.?|not|nor|both|&)\s+|[/,;&|+]\s*|^\W*)\W*(?P<after>[A-Z])(?![\w'’])"
    r"|(?<![\w'’])(?P<before>[A-Z])\s*(?:[):]|(?=\s(?:or|and|is)\b))"
)


def _is_only_choice(letter: str, rest: str, options: Options) -> bool:
    """Return whether the words after a letter neither name another option nor deny this one."""
    own_text = normalize(options[letter])
    if own_text and normalize(rest) == own_text:
        return True
    reason = _REASON.search(rest)
    statement = _unwrap(rest[: reason.start()] if reason else rest)
    if own_text and normalize(statement).startswith(own_text):
        statement = statement[len(own_text) :]
    named = {match["after"] or match["before"] for match in _OTHER_OPTION.finditer(statement)}
    if (named & options.keys()) - {letter}:
        return False
    texts = (normalize(text) for other, text in options.items() if text and other != letter)
    said = normalize(statement)
    return DENIAL.search(said) is None and not any(_occurs(text, said) for text in texts if text)


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
    if len(statement) > MAX_STATEMENT_CHARS:
        return None
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
    if len(text) > MAX_STATEMENT_CHARS:
        return None
    said = normalize(_unwrap(text))
    texts = {letter: normalize(option) for letter, option in options.items() if option}
    equal = [letter for letter, option in texts.items() if option == said]
    within = [letter for letter, option in texts.items() if option and _occurs(option, said)]
    if not equal and within and not says(said, texts[within[0]]):
        return None
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
    label = _LABEL.match(content) if len(content) <= MAX_STATEMENT_CHARS else None
    if label is None or label[1] not in options:
        return None
    return label[1] if _is_only_choice(label[1], label["rest"], options) else None


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
