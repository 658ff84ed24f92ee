"""Words after an answer that take it back: "Actually, this is incorrect", "I made a mistake", "Scratch that".

A remark about something else is none: "A common mistake is 14. This is incorrect because ..." speaks of 14. So a
retraction begins with an exclamation, or it names the writer or the answer.
"""

from __future__ import annotations

import re

_EXCLAIMED = (
    r"(?:wait|hmm+|no|nope|oops|sorry|apologies|actually|hold\s+on|unfortunately|correction|however|but|oh|ah|well"
    r"|on\s+(?:second\s+thoughts?|reflection|closer\s+inspection))"
)
_ADVERBS = r"(?:(?:clearly|obviously|definitely|actually|also|just|still|all|completely|not\s+quite)\s+){0,3}"
_ANSWER = (
    r"(?:(?:that|this|the|my)\s+(?:(?:above|previous|first|earlier|last|boxed|final|initial|stated)\s+){0,4}"
    r"(?:answer|result|value|choice|conclusion|box|response|guess)(?:\s+(?:above|in\s+the\s+box))?)"
)
_WRONG = (
    r"(?:wrong|incorrect|false|mistaken|erroneous|invalid|not\s+(?:right|correct|true|it|the\s+(?:right|correct)\s+\w+)"
    r"|(?:a|an|my|the)\s+(?:\w+\s+)?(?:mistake|error|wrong\s+\w+))(?!\s+(?:to|that|if|only|unless)\b)"
)
_IS_WRONG = (
    rf"(?:(?:\s+(?:is|was|must\s+be)|['’]s)\s+{_ADVERBS}{_WRONG}"
    r"|\s+(?:isn['’]t|wasn['’]t|can(?:['’]t|not)\s+be)\s+(?:quite\s+)?(?:right|correct|true|it)\b"
    r"|\s+(?:does\s+not|doesn['’]t|did\s+not|didn['’]t|cannot|can['’]t)\s+(?:work|hold|fit|make\s+sense|check\s+out)\b)"
)
_SURELY_EXCLAIMED = rf"(?:{_EXCLAIMED}\b[\s,.:;!…–—-]{{0,8}}){{1,4}}"
_MAYBE_EXCLAIMED = rf"(?:{_SURELY_EXCLAIMED})?"
_RETRACTION = re.compile(
    rf"""(?:^|[.!?…。\n(—–-]|[,;:]\s(?!\s*(?:but|however)\b))[\s*_"'(]{{0,8}}(?:
        {_SURELY_EXCLAIMED}(?:(?:that|this|it)|{_ANSWER}){_IS_WRONG}
      | {_MAYBE_EXCLAIMED}{_ANSWER}{_IS_WRONG}
      | {_MAYBE_EXCLAIMED}(?:i|we)\s+(?:have\s+)?(?:just\s+)?(?:made|found|see|notice|spotted)\s+
        (?:a|an|my|the)\s+(?:\w+\s+)?(?:mistake|error|slip)
      | {_SURELY_EXCLAIMED}(?:i|we)\s+(?:forgot|miscounted|misread|miscalculated|mixed\s+up|overlooked)\b
      | {_MAYBE_EXCLAIMED}i\s+(?:was|am|stand)\s+(?:wrong|mistaken|corrected)
      | {_MAYBE_EXCLAIMED}(?:scratch|strike|ignore|disregard|forget)\s+(?:that|this|the\s+above|{_ANSWER})
        (?!\s+\w+\s+(?:if|because)\b)
      | {_MAYBE_EXCLAIMED}i\s+(?:take\s+(?:that|it|this)\s+back|retract)
      | just\s+kidding\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_EXCEPTION = re.compile(
    r"(?:^|[.!?,;:\n])\s*(?:if|unless|had|suppose|when|whenever)\b[^.!?\n]*$", re.IGNORECASE
)
_REAFFIRMED = re.compile(
    r"[^\n]{0,120}?\b(?:(?:it|that|this|everything)(?:\s+is|['’]s)\s+(?:right|correct|fine|ok(?:ay)?)\b"
    r"|(?:my|the)\s+(?:\w+\s+)?answer\s+(?:stands|is\s+(?:right|correct))|stays?\s+the\s+same)",
    re.IGNORECASE,
)


def find_retraction(words: str) -> int | None:
    """Return the end of the last retraction in the words after an answer; None when there is none.

    One that a condition makes void ("If we forgot it, the result is wrong") or that is itself taken back is none.
    """
    end = None
    for found in _RETRACTION.finditer(words):
        start = max(0, found.start() - 200)
        if _EXCEPTION.search(words[start : found.start() + 1]) or _REAFFIRMED.match(words, found.end()):
            continue
        end = found.end()
    return end
