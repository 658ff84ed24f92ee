r"""The sentence around a box: whether it takes the choice in the box back ("\boxed{B} is incorrect.").

A box states a choice, so that only a denial of the box itself counts: other words around it may be about other options.
"""

from __future__ import annotations

import re

from nemo_gym.verify.answer_boxes import last_boxed

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_MAX_CHARS = 300
"""The words on each side of a box that are read."""
_EDGE = r"[\s$*_:\\()\[\]{}\"'.,]*"
_STATES = r"(?:options?|choices?|answers?|letter)"
_BAD = (
    r"(?:(?:wrong|incorrect|false|untrue|invalid|mistaken|impossible)(?!\s+(?:to|that|for)\b)|ruled\s+out|eliminated|excluded|rejected|not\s+(?:it\b|(?:the\s+)?"
    r"(?:right|correct|true|valid|possible|answer|solution|one\b|case\b|(?:correct|right|final)\s+\w+|my\s+\w+))"
    r"|(?:an?|the)\s+(?:\w+\s+)?(?:mistake|error|trap|distractor|misconception))"
)
_IS = r"(?:is|was|are|were|would\s+be|must\s+be|has\s+been|can\s+be|seems|looks)"
_IS_NOT = r"(?:isn['’]t|wasn['’]t|cannot\s+be|can['’]t\s+be)(?!\s+(?:wrong|incorrect|false))"
_IS_BAD = rf"(?:(?:['’]s|\s+{_IS})\s+(?:clearly\s+|obviously\s+|definitely\s+|also\s+)?{_BAD}|\s+{_IS_NOT})"
_NO_OTHER = r"(?:(?!\b(?-i:[A-HJ-Z])\b|\b(?:options?|choices?|others?)\b)[^.!?\n])"
_DENIED_AFTER = re.compile(
    rf"{_EDGE}(?:(?:which|that|it|this|{_STATES})?{_IS_BAD})"
    rf"|{_NO_OTHER}{{0,80}}[.,;:–—-]\s*(?:but|however|yet|though|no|wait|actually|and)?,?\s*(?:that|this|it|which){_IS_BAD}",
    re.IGNORECASE,
)
_DENIED_BEFORE = re.compile(
    rf"(?:\b(?:opposite|complement|reverse|negation|contrary)\s+(?:of|to)"
    rf"|(?<!not\s)(?<!n['’]t\s)(?<!cannot\s)\b(?:rule[sd]?\s+out|ruling\s+out|reject(?:s|ed|ing)?|eliminat(?:e|es|ed|ing)"
    rf"|exclud(?:e|es|ed|ing)|dismiss(?:es|ed)?|discard(?:s|ed)?)"
    rf"|\b(?:anything|everything|any\s+\w+|all\s+\w+)\s+(?:but|except)"
    rf"|\b(?:wrong|incorrect|false)\s+answer(?:\s+(?:is|would\s+be))?"
    rf"|(?:^|[.!?\n])\s*(?:the\s+following|this|that|it)(?:\s+{_STATES})?{_IS_BAD}"
    rf"|\b(?:wrong|incorrect|mistake|error|tempting|wrongly|mistakenly)(?:\s+to)?\s+(?:choose|pick|select|say|answer|think|conclude)"
    rf"|\b(?:one|some|many|most|people|students|others)\b[^.!?\n]{{0,30}}\b(?:might|may|could|wrongly|mistakenly)\s+"
    rf"(?:choose|pick|select|say|think|guess|answer))(?:\s+(?:the|it\s+is))?(?:\s+{_STATES})?{_EDGE}$",
    re.IGNORECASE,
)


def is_last_box_denied(text: str) -> bool:
    """Return whether the words before or after the last box deny it."""
    marks = list(_BOX.finditer(text))
    content = last_boxed(text)
    if not marks or not content:
        return False
    end = text.find(content, marks[-1].end())
    if end < 0 or text[marks[-1].end() : end].strip():
        return False
    before = text[max(0, marks[-1].start() - _MAX_CHARS) : marks[-1].start()]
    after = text[end + len(content) :].lstrip().removeprefix("}")[:_MAX_CHARS]
    return _DENIED_AFTER.match(after) is not None or _DENIED_BEFORE.search(before) is not None
