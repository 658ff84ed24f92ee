r"""The value that the last sentence of a text states without any mark: "So 73 rolls are left.", "The area is **15**."

A sentence states a value if it is the only one in its conclusion: what stands in bold or in dollars, what "is",
"equals" or "=" leads to at its end, or its only number. A question, a guess, a bound, a condition and a plan state
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from nemo_gym.verify.sentences import split_sentences

_SEARCHED = 2_000
"""The end of a text in which its last sentence is looked for."""
_LONGEST_SENTENCE = 400
_OPEN = re.compile(
    r"[?？]|\b(?:not|no|never|neither|nor|cannot|\w+n['’]t|wrong|incorrect|false|mistake|unlikely|or|either|maybe|perhaps"
    r"|possibly|probably|might|may|could|would|should|if|unless|suppose|assume|assuming|let|let['’]s|say|given|told|guess"
    r"|unsure|sure|unknown|between|about|around|approximately|roughly|nearly|almost|at\s+(?:least|most)"
    r"|(?:more|less|greater|fewer|smaller|larger|higher|lower)\s+than|up\s+to|above|below|under|over|need|needs|must|will"
    r"|want|next|first|step|try|check|consider|recall|note|remember|start|begin|depends?|estimate[ds]?|question|problem"
    r"|case|example|options?|know|think|believe|hope|decide|possible|some|others?"
    r"|nicht|kein\w*|sondern|oder|pas|ne|ou|não|niet|geen|of\s+niet|non|не|или|inte|ikke|nie|vielleicht|peut-être)(?!\w)|n['’]est"
    r"|≈|~|\\approx|\\(?:boxed|fbox)|\.\.\.|…",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"\b(?:so|thus|therefore|hence|consequently|accordingly|overall|altogether)\b[\s,:]*", re.IGNORECASE
)
_BOLD = re.compile(r"\*\*(?P<bold>[^*\n]+)\*\*|__(?P<lined>[^_\n]+)__")
_FORMULA = re.compile(r"\$\$?(?P<dollars>[^$\n]+)\$\$?|\\\((?P<round>.+?)\\\)|\\\[(?P<square>.+?)\\\]")
_NUMBER = r"[-−]?[$€£¥]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?/\s?\d+)?%?"
_LONE_NUMBER = re.compile(
    rf"(?<![\w.,/^:*+=-])(?:(?<=\s)-)?{_NUMBER}(?![\w/^:*+=]|[.,:]\d|\s*[-+*/=^×÷]|[-–]\w)"
)
_ANY_NUMBER = re.compile(r"\d[\d.,]*|[½⅓⅔¼¾]")
_STATES = re.compile(
    r".*(?:\b(?:is|are|was|were|equals?|be|makes?|gives?|becomes?|totals?)\b|=)\s*:?\s*(?P<value>\S.{0,80}?)",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"[-+−]?\s*(?:[$€£¥√]\s*)?(?:\d|\.\d|[½⅓⅔¼¾π∞]|\\(?!boxed|fbox|text)"
    r"|infinitely\s+many\b|[({\[|]?[a-zA-Z]?(?![a-zA-Z])[\d+\-−²³^({\\π√/ ])[^\n]*"
)
_WORD = re.compile(r"(?<![\\a-zA-Z])(?!and\b)[a-zA-Z]{3,}")
_RESULT = re.compile(
    r"\W*?(?:(?:the|my|our|final|total|net)\s+){0,3}(?:result|ans|answer|solution|total|final|value|sum)?\.?\s*"
    r"(?:[:：=→]|[-=]>|[∴⇒]|(?<=[a-z])\s)?\s*(?P<value>[-−+$\\(\[{\d√π½⅓⅔¼¾.|]\S*(?:\s.*)?|[a-zA-Z]{1,3}\s*=.*)",
    re.IGNORECASE,
)
"""A line that is only a result: "Result: 5", "x = 5", "4 + 8 = 12"."""
_AFFIRMED = re.compile(
    r"\W*(?P<word>yes|no|true|false)\b(?=[,.;:!]|\W*$)(?![^\n]*\b(?:but|if|unless|maybe|or|sure|know)\b)",
    re.IGNORECASE,
)
_BOLD_END = re.compile(r"\*\*(?P<bold>[^*\n]{1,60})\*\*[\s.!]*\Z")


def find_conclusion(text: str) -> str | None:
    """Return the value that the last sentence of `text` states; None when it states none, or several."""
    sentences = split_sentences(text[-_SEARCHED:])
    sentence = sentences[-1] if sentences else ""
    affirmed = _AFFIRMED.match(sentence) if len(sentences) == 1 else None
    if affirmed is not None:
        return affirmed["word"]
    if not 0 < len(sentence) <= _LONGEST_SENTENCE:
        return None
    clause = _CONCLUDES.split(sentence)[-1]
    if _OPEN.search(clause) or clause.startswith(("#", "|", ">")):
        return None
    finders: list[Callable[[str], str | None]] = [_find_result]
    if _is_ended(sentence):
        finders += [_find_marked, _find_stated, _find_lone_number]
        finders += [_find_bold_end] if clause != sentence else []
    for find in finders:
        value = find(clause)
        if value:
            return value
    return None


def _is_ended(sentence: str) -> bool:
    """Return whether a sentence is whole: a text that was cut off concludes nothing."""
    return sentence.endswith((".", "!", "。", "*", "_", "$", ")", "]", '"', "”"))


def _find_result(clause: str) -> str | None:
    """Return the value of a line that is only a result. A number without "=" or a name before it states nothing."""
    plain = clause.replace("**", "").strip("$ ")
    found = _RESULT.fullmatch(plain)
    value = found["value"].rstrip(" .!$") if found else ""
    is_marked = "=" in value or value != plain.strip(" .!$")
    return value if value and is_marked and not _WORD.search(value) else None


def _find_bold_end(clause: str) -> str | None:
    found = _BOLD_END.search(clause)
    return found["bold"].strip(" .") if found and clause.count("**") == 2 else None


def _find_marked(clause: str) -> str | None:
    """Return the only value in bold, else the only formula in dollars, beside which no number stands."""
    for marks in (_BOLD, _FORMULA):
        found = list(marks.finditer(clause))
        if len(found) != 1:
            continue
        beside = clause[: found[0].start()] + clause[found[0].end() :]
        value = next(str(group) for group in found[0].groups() if group).strip(" .:")
        if not _ANY_NUMBER.search(beside) and "$" not in beside and is_value(value):
            return value
    return None


def _find_stated(clause: str) -> str | None:
    plain = _BOLD.sub(lambda bold: bold["bold"] or bold["lined"], clause).strip(" .!。")
    stated = _STATES.fullmatch(plain)
    if (
        stated is None
        or "$" in plain[: stated.start("value")]
        or _ANY_NUMBER.search(plain[: stated.start("value")])
    ):
        return None
    is_named = stated["value"].lower().startswith("infinitely")
    return (
        stated["value"]
        if is_named or (is_value(stated["value"]) and not _WORD.search(stated["value"]))
        else None
    )


def _find_lone_number(clause: str) -> str | None:
    plain = clause.replace("*", "")
    numbers = _ANY_NUMBER.findall(plain)
    found = _LONE_NUMBER.search(plain)
    return found[0] if found and len(numbers) == 1 and _WORD.search(plain) else None


def is_value(text: str) -> bool:
    """Return whether a text looks like a number or a formula, also with a unit, and not like words."""
    return _VALUE.fullmatch(text) is not None or re.fullmatch(r"[a-zA-Z]{1,3}\s*=.+", text) is not None
