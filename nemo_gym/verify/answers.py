r"""Extraction of the text that a verifier reads, and of the final answer in it.

Only the last assistant message counts, without its reasoning: a verifier that reads everything rewards a policy for
naming every answer once. When a text holds several answers of one form, the last one counts. Forms are tried from the
most explicit to the least explicit:

    boxed   \boxed{X} or \fbox{X}
    tag     <answer>X</answer>
    line    "#### X", "A: X", "Answer: X", "The answer is X"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from nemo_gym.responses.wire import read_field, text_of_content


class AnswerForm(StrEnum):
    """The mark of a final answer."""

    BOXED = "boxed"
    TAG = "tag"
    LINE = "line"


class FinalAnswer(NamedTuple):
    """A final answer without its mark and without surrounding white space; never empty."""

    text: str
    form: AnswerForm


def last_assistant_text(response: object) -> str:
    """Return the text of the last assistant message of a Response (an object or its JSON); "" when there is none."""
    for item in reversed(read_field(response, "output") or ()):
        if read_field(item, "type") in ("message", None) and read_field(item, "role") == "assistant":
            return text_of_content(read_field(item, "content"))
    return ""


_THINKING_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)


def strip_reasoning(text: str) -> str:
    """Return `text` without its `<think>` blocks.

    Text before a closing tag without an opening one is reasoning too, because chat templates may open the block.
    Text after an opening tag that is never closed is reasoning of a truncated generation.
    """
    kept: list[str] = []
    position, is_inside = 0, False
    for tag in _THINKING_TAG.finditer(text):
        if not tag[1]:
            if not is_inside:
                kept.append(text[position : tag.start()])
            is_inside = True
        else:
            if not is_inside:
                kept.clear()
            is_inside, position = False, tag.end()
    if not is_inside:
        kept.append(text[position:])
    return "".join(kept).strip()


def final_text(response: object) -> str:
    """Return the last assistant message without reasoning: the text that a verifier reads."""
    return strip_reasoning(last_assistant_text(response))


MAX_SEARCHED_CHARS = 50_000
"""The end of a text that is searched for a final answer, so that no answer holds the event loop."""


def final_answer(text: str, forms: Sequence[AnswerForm] = tuple(AnswerForm)) -> FinalAnswer | None:
    """Return the final answer in the first of `forms` that occurs at the end of `text`; None when there is none."""
    text = text[-MAX_SEARCHED_CHARS:]
    for form in forms:
        answer = _EXTRACTORS[form](text)
        if answer:
            return FinalAnswer(answer, form)
    return None


_BRACES = re.compile(r"(?P<box>\\(?:boxed|fbox)\s*\{)|\\.|[{}]", re.DOTALL)


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last complete `\boxed{…}`, of nested boxes the innermost. Runs in linear time."""
    open_braces: list[tuple[int, bool]] = []
    last_start, last_content = -1, None
    for token in _BRACES.finditer(text):
        if token["box"] or token[0] == "{":
            open_braces.append((token.end(), token["box"] is not None))
        elif token[0] == "}" and open_braces:
            start, is_box = open_braces.pop()
            if is_box and start > last_start:
                last_start, last_content = start, text[start : token.start()].strip()
    return last_content


_ANSWER_TAG = re.compile(r"<(?P<close>/?)answer>", re.IGNORECASE)


def last_tagged(text: str) -> str | None:
    """Return the content of the last complete `<answer>…</answer>`."""
    start, last = None, None
    for tag in _ANSWER_TAG.finditer(text):
        if not tag["close"]:
            start = tag.end()
        elif start is not None:
            last, start = text[start : tag.start()].strip(), None
    return last


ANSWER_WORDS = re.compile(r"(?i:.*\banswer[*_]*\s*(?:is(?![\w'’])\s*[:：]?|[:：=]))[*_]*\s*(?P<answer>.*)")
"""Matches a line like "Answer: X" or "... the answer is X"."""
ANSWER_MARKS = (
    re.compile(r"####(?=\D*\d)\s*(?P<answer>.*)"),
    re.compile(r"A:\s*(?P<answer>.*)"),
    ANSWER_WORDS,
)
_EMPHASIS = re.compile(r"`|(?<!\w)(?:\*\*|__)|(?:\*\*|__)(?!\w)")
_FULL_STOP = re.compile(r"\.(?=\s|$)")
_ABBREVIATION = re.compile(
    r"(?:st|mr|mrs|ms|dr|prof|rev|hon|gen|col|sgt|capt|lt|sen|gov|rep|jr|sr|mt|ft|no|vs|inc|ltd|co|corp|approx|etc"
    r"|e\.g|i\.e|ca|cf|vol|fig|ave|blvd|rd|(?:[a-z]\.)+[a-z])",
    re.IGNORECASE,
)
_NAME_PARTICLES = frozenset({"de", "da", "di", "van", "von", "der", "of", "the", "and"})
_LONGEST_ANSWER = 2_000
"""A longer answer is not searched for the end of its first sentence."""


def last_answer_line(text: str) -> str | None:
    """Return the tidied text after the last "####", "A:", "Answer:" or "The answer is"."""
    answer = last_marked_line(text, ANSWER_MARKS)
    return tidy(answer) if answer else None


def last_marked_line(text: str, marks: Sequence[re.Pattern[str]]) -> str | None:
    """Return the group `answer` of the last line that matches one of `marks`; the next line where it is empty.

    Markdown emphasis is removed first.
    """
    following = ""
    for line in reversed(text.splitlines()):
        plain = _EMPHASIS.sub("", line).strip()
        for mark in marks:
            match = mark.match(plain)
            if match:
                return match["answer"].strip() or following or None
        following = plain or following
    return None


def tidy(answer: str) -> str:
    """Remove quotes, math marks, and the end of the sentence (a full stop and the text after it) from an answer."""
    return strip_math_marks(_first_sentence(answer.strip()).strip().strip("\"'“”"))


def _first_sentence(text: str) -> str:
    """Return the text before the first full stop that ends a sentence, and not an abbreviation or an initial."""
    for stop in _FULL_STOP.finditer(text[:_LONGEST_ANSWER]):
        words = text[: stop.start()].split()
        word, rest = words[-1].lstrip("(\"'“") if words else "", text[stop.end() : _LONGEST_ANSWER]
        is_initial = len(word) == 1 and word.isupper() and _goes_on_as_name(rest)
        if not rest.strip() or not (is_initial or _ABBREVIATION.fullmatch(word)):
            return text[: stop.start()]
    return text


def _goes_on_as_name(rest: str) -> bool:
    """Return whether the words up to the next full stop are those of a name: "K. Rowling"."""
    for word in rest.split():
        if not (word[0].isupper() or word in _NAME_PARTICLES):
            return False
        if word.endswith(".") and len(word) > 2:
            return True
    return bool(rest.strip())


_MATH_MARKS = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$"))


def strip_math_marks(text: str) -> str:
    r"""Remove the `$…$`, `\(…\)` or `\[…\]` that encloses all of `text`."""
    text = text.strip()
    for opening, closing in _MATH_MARKS:
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            inner = text[len(opening) : -len(closing)]
            if opening not in inner:
                return inner.strip()
    return text


_EXTRACTORS = {
    AnswerForm.BOXED: last_boxed,
    AnswerForm.TAG: last_tagged,
    AnswerForm.LINE: last_answer_line,
}
