r"""Extraction of the text that a verifier reads, and of the final answer in it.

Only the last assistant message counts, without its reasoning: a verifier that reads everything rewards a policy for
naming every answer once. When a text holds several answers of one form, the last one counts. Forms are tried from the
most explicit to the least explicit:

    boxed      \boxed{X} or \fbox{X}
    tag        <answer>X</answer>
    line       "#### X", "A: X", "Answer: X", "The answer is X", in other languages too
    json       {"answer": X} at the end
    sentence   the only value in the last sentence: "So 73 rolls are left."

The text after an answer may take it back ("Wait, that is wrong") or state another one ("The final answer is 14."). Then
only that text counts.

An answer may have several marks: "Answer: $\boxed{X}$" is X. A box that the words around it deny ("not \boxed{X}",
"\boxed{X} is wrong") or make another quantity of ("at least \boxed{X}") states nothing, and boxes that "or" or a
comma joins are one answer, so that no text names all answers and wins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from nemo_gym.responses.wire import read_content_text, read_field
from nemo_gym.verify._denials import is_denied
from nemo_gym.verify.answer_boxes import (
    LONGEST_JOINT,
    Stated,
    cut_at_closing_brace,
    find_box,
    find_boxes,
    last_boxed,
    write_braces,
)
from nemo_gym.verify.answer_marks import (
    ANSWER_MARKS,
    CORRECTED_ANSWER,
    WEAK_ANSWER_MARKS,
    is_other_case,
    is_supposed_answer,
    match_mark,
)
from nemo_gym.verify.answer_remarks import strip_remarks
from nemo_gym.verify.conclusions import find_conclusion, is_value
from nemo_gym.verify.corrections import find_retraction, is_crossed_out
from nemo_gym.verify.sentences import cut_first_sentence
from nemo_gym.verify.typesetting import strip_math_marks

__all__ = [
    "MAX_SEARCHED_CHARS",
    "AnswerForm",
    "FinalAnswer",
    "final_answer",
    "final_text",
    "find_json",
    "find_marked_line",
    "find_tag",
    "is_fence",
    "last_assistant_text",
    "last_marked_line",
    "last_tagged",
    "read_inner_answer",
]


class AnswerForm(StrEnum):
    """The mark of a final answer."""

    BOXED = "boxed"
    TAG = "tag"
    LINE = "line"
    JSON = "json"
    SENTENCE = "sentence"


class FinalAnswer(NamedTuple):
    """A final answer without its mark and without surrounding white space; never empty."""

    text: str
    form: AnswerForm


def last_assistant_text(response: object) -> str:
    """Return the text of the last assistant message of a Response (an object or its JSON); "" when there is none."""
    for item in reversed(read_field(response, "output") or ()):
        if read_field(item, "type") in ("message", None) and read_field(item, "role") == "assistant":
            return read_content_text(read_field(item, "content"))
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
        if tag[1]:
            if not is_inside:
                kept.clear()
            position = tag.end()
        elif not is_inside:
            kept.append(text[position : tag.start()])
        is_inside = not tag[1]
    if not is_inside:
        kept.append(text[position:])
    return "".join(kept).strip()


def final_text(response: object) -> str:
    """Return the last assistant message without reasoning: the text that a verifier reads."""
    return strip_reasoning(last_assistant_text(response))


MAX_SEARCHED_CHARS = 50_000
"""The end of a text that is searched for a final answer, so that no answer holds the event loop."""


def final_answer(text: str, forms: Sequence[AnswerForm] = tuple(AnswerForm)) -> FinalAnswer | None:
    """Return the last answer that `text` states and does not take back; None when there is none.

    At first the first of `forms` counts that occurs. Text after it counts if it takes the answer back or states another
    one. With `AnswerForm.LINE`, a line like "The answer to this must be X" counts if no form occurs.
    """
    text = write_braces(text[-MAX_SEARCHED_CHARS:])
    found = _find_first_form(text, forms)
    while found is not None:
        form, stated = found
        retraction = find_retraction(stated.rest)
        if retraction is not None:
            text = stated.rest[retraction:]
            found = _find_first_form(text, forms, ANSWER_MARKS + CORRECTED_ANSWER)
            continue
        later = _find_first_form(stated.rest, forms, ANSWER_MARKS + CORRECTED_ANSWER)
        if later is None or not _is_other(later[1], stated.answer, later[0]):
            return FinalAnswer(read_inner_answer(stated.answer), form)
        found = later
    return _find_weak_answer(text, forms)


def _find_first_form(
    text: str, forms: Sequence[AnswerForm], marks: Sequence[re.Pattern[str]] = ANSWER_MARKS
) -> tuple[AnswerForm, Stated] | None:
    for form in forms:
        stated = find_line(text, marks) if form is AnswerForm.LINE else _FINDERS[form](text)
        if stated is not None and stated.answer:
            return form, stated
    return None


def _find_weak_answer(text: str, forms: Sequence[AnswerForm]) -> FinalAnswer | None:
    line = find_line(text, WEAK_ANSWER_MARKS) if AnswerForm.LINE in forms else None
    if line is not None and line.answer:
        return FinalAnswer(line.answer, AnswerForm.LINE)
    value = find_conclusion(text) if AnswerForm.SENTENCE in forms else None
    return FinalAnswer(strip_math_marks(value), AnswerForm.SENTENCE) if value else None


_SUPPOSED = re.compile(
    r"\b(?:if|unless|suppose|had|when|some|many|students?|people|might|may|could|would|wrong|incorrect|common|not"
    r"|tempting|someone|example|says?|said|claims?|n['’]t)\b[^.!?]*$",
    re.IGNORECASE,
)
_CONTRAST = re.compile(r"[,;]\s+(?:but|however|yet)\b", re.IGNORECASE)
"""Words between what others say and the statement of the answer: "Many say 5, but the answer is"."""
_VERDICT_WORDS = re.compile(r"(?:yes|no|true|false|none|zero|[a-zA-Z])\W*", re.IGNORECASE)
_ROUNDED = re.compile(r"\b(?:approx|rounded|about|roughly)|≈", re.IGNORECASE)


def _is_other(later: Stated, answer: str, form: AnswerForm) -> bool:
    """Return whether a later statement replaces `answer`. A remark on the answer or a supposition does not.

    A line must state a value: "The answer is reasonable" and "If x were 2, the answer is 9" replace nothing.
    """
    if form is not AnswerForm.LINE:
        return True
    if (
        _SUPPOSED.search(_CONTRAST.split(later.lead)[-1])
        or is_other_case(later.lead)
        or _ROUNDED.search(later.answer)
    ):
        return False
    if not (is_value(later.answer) or _VERDICT_WORDS.fullmatch(later.answer)):
        return False
    said = strip_math_marks(later.answer)
    repeated = re.match(rf"(?:[a-zA-Z]\s*=\s*)?{re.escape(strip_math_marks(answer))}(?!\w|[.,/^]\d)", said)
    return repeated is None


_ANSWER_TAG = re.compile(r"<(?P<close>/?)answer>", re.IGNORECASE)


def last_tagged(text: str) -> str | None:
    """Return the content of the last complete `<answer>…</answer>`."""
    stated = find_tag(text)
    return stated.answer if stated else None


def find_tag(text: str) -> Stated | None:
    """Return `last_tagged` and the text after it."""
    start, last = None, None
    for tag in _ANSWER_TAG.finditer(text):
        if not tag["close"]:
            start = tag.end()
        elif start is not None:
            opening = text.rfind("<", 0, start)
            last, start = (
                (last if is_denied(text, opening, tag.end()) else (start, tag.start(), tag.end())),
                None,
            )
    return Stated(text[last[0] : last[1]].strip(), text[last[2] :]) if last else None


_JSON_END = re.compile(r"\}\s*(?:```\s*)?\Z")
_JSON_START = re.compile(r"\{\s*\"")


def find_json(text: str, names: Sequence[str] = ("final_answer", "answer")) -> Stated | None:
    """Return the value of the first of `names` in the JSON object that ends `text`: a text or a number."""
    end = _JSON_END.search(text[-100:])
    if end is None:
        return None
    value = _read_last_object(text[: len(text) - len(text[-100:]) + end.start() + 1])
    answer = next((value[name] for name in names if name in value), None)
    return Stated(str(answer), "") if isinstance(answer, str | int | float) else None


def _read_last_object(text: str) -> dict[str, Any]:
    """Return the JSON object that ends `text` and begins first; an empty one if there is none."""
    for start in islice(_JSON_START.finditer(text), _MOST_OBJECTS):
        try:
            value: dict[str, Any] = json.loads(text[start.start() :])
        except (ValueError, RecursionError):
            continue
        return value
    return {}


_MOST_OBJECTS = 20
"""The beginnings of objects that are tried."""
_EMPHASIS = re.compile(r"`|(?<!\w)(?:\*\*|__)|(?:\*\*|__)(?!\w)")


def last_answer_line(text: str, marks: Sequence[re.Pattern[str]] = ANSWER_MARKS) -> str | None:
    """Return the tidied text after the last "####", "A:", "Answer:" or "The answer is"."""
    line = find_line(text, marks)
    return line.answer if line else None


def find_line(text: str, marks: Sequence[re.Pattern[str]]) -> Stated | None:
    """Return `last_answer_line` and the text after it, which begins with the next sentence of its line."""
    line = find_marked_line(text, marks)
    if line is None or not line.answer:
        return None
    rest = line.answer[len(cut_first_sentence(line.answer)) :].lstrip(".")
    return Stated(strip_remarks(line.answer), f"{rest}\n{line.rest}", line.lead)


def _write_denials(text: str) -> str:
    """Return `text` with "not" before each denied box, because a line of it may not show the denial."""
    for box in reversed(find_boxes(text) if "\\boxed" in text or "\\fbox" in text else []):
        if is_denied(text, box.start, box.end + 1) and not _NOT.search(text[: box.start][-LONGEST_JOINT:]):
            text = f"{text[: box.start]}not {text[box.start :]}"
    return text


_NOT = re.compile(r"\b(?:not|at\s+\w+|than)\W*$", re.IGNORECASE)


def last_marked_line(text: str, marks: Sequence[re.Pattern[str]]) -> str | None:
    """Return the group `answer` of the last line that matches one of `marks`; the next line where it is empty.

    Markdown emphasis is removed first. Of an answer with a box, the content of the box is returned.
    """
    line = find_marked_line(text, marks)
    return (line.answer or None) if line else None


def find_marked_line(text: str, marks: Sequence[re.Pattern[str]]) -> Stated | None:
    """Return `last_marked_line`, which may be empty, and the lines after it.

    A line about another answer ("The wrong answer is 7"), or that denies its number ("The answer is not 7"), is none.
    One about another case ("For n=4 the answer is 7") counts if there is no other.
    """
    lines = _write_denials(text).splitlines()
    other_case: Stated | None = None
    for index in reversed(range(len(lines))):
        plain = _EMPHASIS.sub("", lines[index]).strip()
        found = match_mark(plain, marks)
        if found is None:
            continue
        following = lines[index + 1 :]
        answer, used = _whole_statement(cut_at_closing_brace(found["answer"]), following[:_MOST_LINES])
        rest = "\n".join((found.string[found.end("answer") :], *following[used:]))
        answer = f"not {answer}" if is_crossed_out(answer) else answer
        stated = Stated(_read_box_in(answer) or answer, rest, found.string[: found.start("answer")])
        if is_supposed_answer(stated.lead):
            continue
        if not is_other_case(stated.lead):
            return stated
        other_case = other_case or stated
    return other_case


_ALTERNATIVE_BEFORE = re.compile(r"(?:or|either|maybe|perhaps|possibly)[\s$*_\\(\[]*$", re.IGNORECASE)
_ALTERNATIVE_AFTER = re.compile(r"[\s$*_\\)\],]*(?:or|vs|versus|otherwise|alternatively)\b", re.IGNORECASE)


def _read_box_in(line: str) -> str | None:
    """Return the content of the last box in an answer line; None when the line names an alternative to it."""
    boxes = find_boxes(line)
    if len(boxes) == 1:
        before, after = line[: boxes[0].start][-LONGEST_JOINT:], line[boxes[0].end + 1 :]
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


def _whole_statement(answer: str, following: Sequence[str]) -> tuple[str, int]:
    """Return an answer up to the end of its fence or box, and how many of the `following` lines it takes.

    It starts on the line of its mark, or on a later one.
    """
    kept = [] if is_fence(answer) else [answer] if answer else []
    is_fenced = not kept and bool(answer)
    used = 0
    for used, line in enumerate((*following, ""), 1):  # noqa: B007
        if kept and not is_fenced and not _is_open_box(kept):
            break
        if is_fence(line):
            if kept:
                break
            is_fenced = True
        elif line.strip():
            kept.append(_HEAD.sub("", _EMPHASIS.sub("", line)).strip() if not kept else line)
    return " ".join(kept).strip(), used - 1


def _is_open_box(lines: Sequence[str]) -> bool:
    said = " ".join(lines)
    return "\\boxed" in said and not find_boxes(said)


_INNER_MARK = re.compile(
    r"\s*(?:\\(?:text|textbf|mathrm|mbox)\s*\{\s*)?(?i:(?:the\s+)?(?:(?:final|correct)\s+)?answer\s*(?:is\s*[:：]?|[:：=]))"
    r"\s*(?P<answer>.*)",
    re.DOTALL,
)


def read_inner_answer(answer: str) -> str:
    r"""Return the answer in an answer with a second mark: "Answer: 5" in a box, `\boxed{5}` in a tag."""
    emphasized = _EMPHASIZED_ANSWER.fullmatch(answer)
    answer = emphasized["answer"] if emphasized else answer
    boxed = last_boxed(answer) if _ONE_BOX.fullmatch(answer) else None
    if boxed:
        return boxed
    match = _INNER_MARK.match(answer)
    return (cut_at_closing_brace(match["answer"]) if match else "") or answer


_EMPHASIZED_ANSWER = re.compile(r"(\*\*|__)(?P<answer>[^*_\s](?:[^*_]*[^*_\s])?)\1")
_ONE_BOX = re.compile(r"[\s$*]*(?:\\[(\[])?\s*\\(?:boxed|fbox)\s*\{.*\}\s*(?:\\[)\]])?[\s$*.]*", re.DOTALL)


_FINDERS: dict[AnswerForm, Callable[[str], Stated | None]] = {
    AnswerForm.BOXED: find_box,
    AnswerForm.TAG: find_tag,
    AnswerForm.JSON: find_json,
    AnswerForm.SENTENCE: lambda _: None,
}
