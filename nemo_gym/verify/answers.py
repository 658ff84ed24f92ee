r"""Extraction of the text that a verifier reads, and of the final answer in it.

Only the last assistant message counts, without its reasoning: a verifier that reads everything rewards a policy for
naming every answer once. When a text holds several answers of one form, the last one counts. Forms are tried from the
most explicit to the least explicit:

    boxed   \boxed{X} or \fbox{X}
    tag     <answer>X</answer>
    line    "#### X", "A: X", "Answer: X", "The answer is X"

An answer may have several marks: "Answer: $\boxed{X}$" is X. A box that the words around it deny ("not \boxed{X}",
"\boxed{X} is wrong") or make another quantity of ("at least \boxed{X}") states nothing, and boxes that "or" or a
comma joins are one answer, so that no text names all answers and wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise, zip_longest
from typing import NamedTuple

from nemo_gym.responses.wire import read_field, text_of_content
from nemo_gym.verify._denials import is_denied


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
    """Return the final answer in the first of `forms` that occurs at the end of `text`; None when there is none.

    With `AnswerForm.LINE`, a line like "The answer to this must be X" counts if no form occurs.
    """
    text = text[-MAX_SEARCHED_CHARS:]
    for form in forms:
        answer = _EXTRACTORS[form](text)
        if answer:
            return FinalAnswer(read_inner_answer(answer), form)
    answer = last_answer_line(text, WEAK_ANSWER_MARKS) if AnswerForm.LINE in forms else None
    return FinalAnswer(answer, AnswerForm.LINE) if answer else None


_BRACES = re.compile(r"(?P<box>\\(?:boxed|fbox)\s*\{)|\\.|[{}]", re.DOTALL)


class _Box(NamedTuple):
    start: int
    """The place of the mark, before the content."""
    content_start: int
    end: int


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last complete `\boxed{…}`, of nested boxes the innermost. Runs in linear time.

    Boxes that the words around them deny or change do not count. Boxes joined by "or", "and" or a comma are one:
    "\boxed{1} or \boxed{2}" is "1 or 2".
    """
    boxes = [box for box in _innermost(_find_boxes(text)) if not is_denied(text, box.start, box.end + 1)]
    if not boxes:
        return None
    content = text[boxes[-1].content_start : boxes[-1].end].strip()
    for before, after in pairwise(reversed(boxes)):
        joint = (
            _JOINT.fullmatch(text, after.end + 1, before.start)
            if before.start - after.end < _LONGEST_JOINT
            else None
        )
        if joint is None:
            break
        other = text[after.content_start : after.end].strip()
        content = content if other == content else f"{other} {joint[1]} {content}"
    return content


_LONGEST_JOINT = 40
_JOINT = re.compile(r"[\s$*_\\()\]\[]*(or|and|,|;|/|&)(?:\s*(?:or|and|else|maybe|perhaps))*[\s$*_\\()\]\[]*")


def _find_boxes(text: str) -> list[_Box]:
    """Return the complete boxes in the order of their starts."""
    open_braces: list[tuple[re.Match[str], bool]] = []
    boxes: list[_Box] = []
    for token in _BRACES.finditer(text, 0, text.rfind("}") + 1):  # what opens after the last is never closed
        if token["box"] or token[0] == "{":
            open_braces.append((token, token["box"] is not None))
        elif token[0] == "}" and open_braces:
            opening, is_box = open_braces.pop()
            if is_box:
                boxes.append(_Box(opening.start(), opening.end(), token.start()))
    return sorted(boxes)


def _innermost(boxes: list[_Box]) -> list[_Box]:
    """Return the boxes that hold no other one."""
    return [
        box for box, following in zip_longest(boxes, boxes[1:]) if not following or following.start > box.end
    ]


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


_VERDICT = r"(?:correct|right|wrong|incorrect|clear|obvious|unique|below|above|as follows)\b"
"""Words that say something about an answer, after "the answer is"."""
_THEREFORE = r"(?:\s*,?\s*(?:therefore|thus|hence|then|indeed|simply|just)\b\s*,?)?+"
ANSWER_WORDS = re.compile(
    rf"(?i:.*\banswer[*_]*\s*(?:is(?![\w'’]){_THEREFORE}(?!\s*{_VERDICT})\s*[:：]?|[:：=]))[*_]*\s*(?P<answer>.*)"
)
"""Matches a line like "Answer: X" or "... the answer is X"."""
ANSWER_MARKS = (
    re.compile(r"####(?=\D*\d)\s*(?P<answer>.*)"),
    re.compile(r"A:\s*(?P<answer>.*)"),
    ANSWER_WORDS,
)
WEAK_ANSWER_MARKS = (
    re.compile(r"(?i:\W*(?:the\s+)?(?:(?:final|correct)\s+)?answer)\W*(?P<answer>)$"),
    re.compile(
        r"(?i:.*\banswer(?:\s+(?:to|of|for|in)\s[^.:：=]{1,80}?)?"
        r"(?:\s+(?:(?:would|should|must|will|has\s+to)\s+be|is(?!['’])|equals|comes\s+(?:out\s+)?to)\b\s*[:：]?"
        r"|['’]s\b|\s*(?:[:：→]|[-=]>|\s[-–—]\s)))\s*(?P<answer>.*)"
    ),
)
"""Lines that may also be a heading or a remark, for a text that states its answer in no other way."""
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


def last_answer_line(text: str, marks: Sequence[re.Pattern[str]] = ANSWER_MARKS) -> str | None:
    """Return the tidied text after the last "####", "A:", "Answer:" or "The answer is"."""
    answer = last_marked_line(text, marks)
    return tidy(answer) if answer else None


def _write_denials(text: str) -> str:
    """Return `text` with "not" before each denied box, because a line of it may not show the denial."""
    for box in reversed(_find_boxes(text) if "\\boxed" in text or "\\fbox" in text else []):
        if is_denied(text, box.start, box.end + 1) and not _NOT.search(text[: box.start][-_LONGEST_JOINT:]):
            text = f"{text[: box.start]}not {text[box.start :]}"
    return text


_NOT = re.compile(r"\b(?:not|at\s+\w+|than)\W*$", re.IGNORECASE)


def last_marked_line(text: str, marks: Sequence[re.Pattern[str]]) -> str | None:
    """Return the group `answer` of the last line that matches one of `marks`; the next line where it is empty.

    Markdown emphasis is removed first. Of an answer with a box, the content of the box is returned.
    """
    lines = _write_denials(text).splitlines()
    for index in reversed(range(len(lines))):
        plain = _EMPHASIS.sub("", lines[index]).strip()
        for mark in marks:
            match = mark.match(plain)
            if match:
                answer = _inside_braces(match["answer"])
                answer = _whole_statement(answer, lines[index + 1 : index + 1 + _MOST_LINES])
                return _read_box_in(answer) or answer or None
    return None


_ALTERNATIVE_BEFORE = re.compile(r"(?:or|either|maybe|perhaps|possibly)[\s$*_\\(\[]*$", re.IGNORECASE)
_ALTERNATIVE_AFTER = re.compile(r"[\s$*_\\)\],]*(?:or|vs|versus|otherwise|alternatively)\b", re.IGNORECASE)


def _read_box_in(line: str) -> str | None:
    """Return the content of the last box in an answer line; None when the line names an alternative to it."""
    boxes = _find_boxes(line)
    if len(boxes) == 1:
        before, after = line[: boxes[0].start][-_LONGEST_JOINT:], line[boxes[0].end + 1 :]
        if _ALTERNATIVE_BEFORE.search(before) or _ALTERNATIVE_AFTER.match(after):
            return None
    return last_boxed(line)


_MOST_LINES = 50
"""Maximum number of lines that an answer takes after its mark."""
_FENCE = re.compile(r"\s*(?:```\w*|~~~\w*|\$\$?|\\[\[\]()]|\\(?:begin|end)\{\w+\*?\}|[-*_=]{3,})\s*")
_HEAD = re.compile(r"\A\s*(?:[-*+•]\s+(?!\d)|#{1,6}\s+)")


def is_fence(line: str) -> bool:
    """Return whether a line only begins or ends a block: of code, of a displayed formula, of a page."""
    return _FENCE.fullmatch(line) is not None


def _whole_statement(answer: str, following: Sequence[str]) -> str:
    """Return an answer that starts on the line of its mark, or on a later one, up to the end of its fence or box."""
    kept = [] if is_fence(answer) else [answer] if answer else []
    is_fenced = not kept and bool(answer)
    for line in following:
        if kept and not is_fenced and not _is_open_box(kept):
            break
        if is_fence(line):
            if kept:
                break
            is_fenced = True
        elif line.strip():
            kept.append(_HEAD.sub("", _EMPHASIS.sub("", line)).strip() if not kept else line)
    return " ".join(kept).strip()


def _is_open_box(lines: Sequence[str]) -> bool:
    said = " ".join(lines)
    return "\\boxed" in said and not _find_boxes(said)


def tidy(answer: str) -> str:
    """Remove quotes, emphasis, math marks, the reason behind a number, and the text after the sentence."""
    sentence = _REASON.sub("", _first_sentence(answer.strip())).strip().strip("\"'“”")
    emphasized = _EMPHASIZED.fullmatch(sentence)
    return strip_math_marks(emphasized["content"] if emphasized else sentence)


_REASON = re.compile(r"(?<=[\d})$%\]])(?:,?\s+because|,\s*since|\s+since(?!\s+\d))\b.*", re.DOTALL)
"""The reason that follows a number or a formula: "18, since 9*2=18"."""
_EMPHASIZED = re.compile(
    r"(?:(?P<mark>[*_])(?=[^\s*_])|<(?P<tag>b|strong|i|em|u|code|mark)>)(?P<content>[^*<>]*)"
    r"(?(mark)(?P=mark)|</(?P=tag)>)",
    re.DOTALL,
)
_INNER_MARK = re.compile(
    r"\s*(?:\\(?:text|textbf|mathrm|mbox)\s*\{\s*)?(?i:(?:the\s+)?(?:(?:final|correct)\s+)?answer\s*(?:is\s*[:：]?|[:：=]))"
    r"\s*(?P<answer>.*)",
    re.DOTALL,
)


def read_inner_answer(answer: str) -> str:
    r"""Return the answer in an answer with a second mark: "Answer: 5" in a box, `\boxed{5}` in a tag."""
    boxed = last_boxed(answer) if _ONE_BOX.fullmatch(answer) else None
    if boxed:
        return boxed
    match = _INNER_MARK.match(answer)
    return (_inside_braces(match["answer"]) if match else "") or answer


def _inside_braces(text: str) -> str:
    r"""Return a text up to the brace that closes one before it: "42" of "42}", which "\boxed{Answer: 42}" ends with."""
    text, depth = text.lstrip("} "), 0
    for token in _BRACES.finditer(text):
        depth += (token[0][-1] == "{") - (token[0] == "}")
        if depth < 0:
            return text[: token.start()].strip()
    return text.strip()


_ONE_BOX = re.compile(r"[\s$*]*(?:\\[(\[])?\s*\\(?:boxed|fbox)\s*\{.*\}\s*(?:\\[)\]])?[\s$*.]*", re.DOTALL)


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


_TEXT_COMMAND = (
    r"\\(?:text(?:bf|it|rm|sf|tt|up|sc|normal)?|math(?:rm|bf|it|sf|tt|normal)|boldsymbol|bm|mbox|hbox|emph|underline"
    r"|operatorname)"
)
_TEXT_BLOCK = re.compile(rf"{_TEXT_COMMAND}\s*\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}")


def unwrap_text(text: str) -> str:
    r"""Remove `\text{…}`, `\mathbf{…}` and similar commands around words, also nested ones."""
    for _ in range(2):
        text = _TEXT_BLOCK.sub(r"\1", text)
    return text


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
