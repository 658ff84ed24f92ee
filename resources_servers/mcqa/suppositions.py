"""Sentences that suppose another question: "Had it asked about Spain, the answer would be D." They choose nothing."""

from __future__ import annotations

import re

from nemo_gym.verify.sentences import split_sentences

_WOULD = re.compile(
    r"(?:\b(?:would|might|could)|\w['’]d)\s+(?:(?:then|instead|rather|also|probably)\s+)?(?:be|become|have|choose|pick|select|say|go)\b"
    r"|\bwould['’]ve\b",
    re.IGNORECASE,
)
_UNREAL = re.compile(
    r"\b(?:if|unless)\b(?!\s+(?:we|you|i|one)\s+(?!had|were|did|wanted|could)|\s+i\s+(?:had|were)\s+to\b)|(?:\A|[,;:]\s+)\W*(?:had|were)\b"
    r"|\A\W*(?:otherwise|in\s+that\s+case|for\s+(?-i:[A-Z])|with(?:out)?\s)"
    r"|\b(?:would|could|might)(?:\s+\w+)?\s+have\s+been\b|\bwould['’]ve\b",
    re.IGNORECASE,
)
"""A condition that does not hold. "If we add both" is a step, not a supposition."""
_CONDITION_FIRST = re.compile(r"\W*(?:if|had|were|otherwise|unless)\b", re.IGNORECASE)
_LABEL_BEFORE = re.compile(r"\A\W*[A-Za-z][.)]\W*\Z")
"""A label, whose text the sentence begins with: "B. Paris would be right if ..."."""
_SUPPOSES = re.compile(r"\W*(?:suppose|supposing|imagine|assume|(?:now\s+)?what\s+if)\b", re.IGNORECASE)


_CONCLUDES = re.compile(r"\b(?:so|thus|hence|therefore)\b[^.]*\bwould\b", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"\s*\((?:if|had|were)\b[^()]*\bwould\b[^()]*\)", re.IGNORECASE)


_COUNTERFACTUAL = re.compile(
    r"\bif\s+(?!(?:i|we|you|one)\b)[^.!?]{1,100}?\b(?:were|had)\b[^.!?]*\bwould\b|\bwould\b[^.!?]*\bif\s+(?!(?:i|we|you|one)\b)"
    r"[^.!?]{1,100}?\b(?:were|had)\b",
    re.IGNORECASE,
)


def is_counterfactual(text: str) -> bool:
    """Return whether a text speaks of a condition that does not hold: "If friction were negligible, it would be A."."""
    return _COUNTERFACTUAL.search(text) is not None


def strip_suppositions(text: str) -> str:
    """Return a text without the sentences that say which answer another question would have."""
    if _WOULD.search(text) is None:
        return text
    return "\n".join(map(_strip_line, _IN_BRACKETS.sub("", text).split("\n")))


def _strip_line(line: str) -> str:
    is_supposed = False
    for sentence in split_sentences(line) if _WOULD.search(line) else ():
        is_real = _WOULD.search(sentence) is None or _CONCLUDES.search(sentence) is not None
        is_other = not is_real and (is_supposed or _UNREAL.search(sentence) is not None)
        if is_other and (
            _CONDITION_FIRST.match(sentence) or not _LABEL_BEFORE.search(line.partition(sentence)[0])
        ):
            line = line.replace(sentence, "", 1)
        is_supposed = _SUPPOSES.match(sentence) is not None
    return line
