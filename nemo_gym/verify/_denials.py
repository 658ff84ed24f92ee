r"""Words around a box that deny its content, or make another quantity of it.

    \boxed{18} is wrong; This is incorrect: \boxed{18}; not \boxed{18}          denied
    at least \boxed{18}, \boxed{18} or more, $-\boxed{18}$, $\boxed{18}^2$      another quantity
    \boxed{18}. This is not surprising.                                        stated

Only words that speak of the box count: those in its sentence, and the next sentence about "that", "this" or "it".
"""

from __future__ import annotations

import re

_LONGEST = 120
"""Maximum number of characters on each side of a box that are searched."""

_OPENING = r"[\s$*_:\\(\[{\"'“‘]*"
_CLOSING = r"[\s$*_\\)\]}\"'”’]*"
_RESULT = r"(?:answer|result|solution|value|number|guess|choice)"
_MISTAKE = r"(?:a|an|my|the)\s+(?:\w+\s+)?(?:mistake|error|lie)"
_WRONG = r"(?:wrong|incorrect|false|untrue|invalid|mistaken|erroneous|impossible)"
_MORE = r"(?:more|less|greater|fewer|smaller|larger|bigger|lower|higher)"
_BEFORE = re.compile(
    rf"""(?:
        (?:\b(?:not|never|cannot|nor|neither|rather\s+than|instead\s+of)|n['’]t(?!\s*:))
        (?:\s+(?:be|equal(?:\s+to)?|a|an|the))*
      | \b(?:following|this)\b[^.!?\n]{{0,40}}\s(?:is|are)\s+{_WRONG}\s*[:：]
      | (?:^|[.!?\n])\s*{_WRONG}\s*[:：]
      | (?<!not\sthe\s)(?<!not\sa\s)\b{_WRONG}\s+{_RESULT}s?(?:\s+(?:is|are|was|would\s+be)\b|\s*[:：])
      | \b(?:common|typical|frequent)\s+(?:mistake|error)\s+is
      | \bat\s+(?:least|most)
      | \b{_MORE}\s+than(?:\s+or\s+equal\s+to)?
    ){_OPENING}$""",
    re.IGNORECASE | re.VERBOSE,
)
_SUBJECT = rf"(?:that|this|it|which|(?:the|this|that|my)\s+{_RESULT})"
_IS_WRONG = rf"""(?:
    (?:is|are|was|would\s+be|must\s+be|['’]s)\s+(?:(?:clearly|obviously|definitely|actually|also|just)\s+)?
    (?:{_WRONG}|{_MISTAKE})
  | (?:(?:is|was|['’]s)\s+not|(?:is|was)n['’]t|(?:cannot|could\s+not|can['’]t|couldn['’]t)\s+be)
    (?:\s+(?:the|a|my|final|right|correct|valid))*\s+(?:right|correct|true|valid|possible|{_RESULT})
  | (?:does\s+not|doesn['’]t|did\s+not|didn['’]t|cannot|can['’]t)\s+(?:work|hold|fit|make\s+sense|check\s+out)
)\b(?!\s+(?:to|that|if|only|unless|for|in|you|we|one)\b)"""
_EXCLAIMED = r"(?:wait|hmm|no|nope|oops|sorry|actually|but|however|unfortunately)"
_AFTER = re.compile(
    rf"""{_CLOSING}(?:
        [,;:–—-]*\s*(?:(?:and|but|though|although|yet|however)\b\s*,?\s*)?(?:{_SUBJECT}\s*)?{_IS_WRONG}
      | [.?!…]+{_CLOSING}(?:{_EXCLAIMED}\b[\s,.:;!…–—-]*)*{_SUBJECT}\s*{_IS_WRONG}
      | \?{_CLOSING}(?:no|nope|never|{_WRONG})\b
      | [.(\[:–—-]*\s*{_WRONG}[).\]!\s]*$
      | \s*(?:[✗✘❌✖]|nope\b)
      | \s*(?:is|was)\s+what\s+(?:most|many|some|other|few)\b
      | ,?\s*or\s+(?:{_MORE}|above|below|over|under|up)\b(?!\s+\w+ly\b)
      | ,?\s*and\s+(?:above|below|over|under|up|{_MORE})\s*(?:[.,;!]|$)
      | \s*at\s+(?:least|most)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_FACTOR_BEFORE = re.compile(r"(?:(?:\$|\\\(|\\\[|=)\s*-|\\(?:cdot|times|div)|\^\s*\{?)\s*$")
_END_OF_FORMULA = re.compile(r"[\s}]*(?:\$|\\\)|\\\]|[.,](?!\d)|$)")
_FACTOR_AFTER = re.compile(r"\s*(?:\^(?!\s*\{?\s*\\circ)|\\pi(?![a-zA-Z])|!\s*(?:\$|\\\)|\\\]))")


def is_denied(text: str, start: int, end: int) -> bool:
    """Return whether the words around `text[start:end]`, a box with its mark, deny it or change its quantity."""
    before = _close_up(text[max(0, start - _LONGEST) : start])
    after = _close_up(text[end : end + _LONGEST])
    if _BEFORE.search(before) or _AFTER.match(after) or _FACTOR_AFTER.match(after):
        return True
    return _FACTOR_BEFORE.search(before) is not None and _END_OF_FORMULA.match(after) is not None


def _close_up(text: str) -> str:
    """Return `text` with one space or line break for each run, so that no pattern takes long on blank text."""
    return re.sub(r"\s*\n\s*", "\n", re.sub(r"[^\S\n]+", " ", text))
