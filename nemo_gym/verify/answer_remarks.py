"""The value of an answer line, without the words around it: "45, because ..." and "45 (see above)" are 45.

Words that explain a value or name another one as wrong leave it. Words that deny it, doubt it, join another value to it
or make another quantity of it stay, so that the line equals no answer.
"""

from __future__ import annotations

import re

from nemo_gym.verify.conclusions import is_value
from nemo_gym.verify.corrections import find_retraction
from nemo_gym.verify.number_words import read_number_words
from nemo_gym.verify.sentences import cut_first_sentence
from nemo_gym.verify.typesetting import strip_math_marks


def strip_remarks(answer: str) -> str:
    """Return an answer line without quotes, emphasis, math marks, the remarks on its value, and later sentences."""
    sentence = cut_first_sentence(_LEAD.sub("", answer.strip())).strip().strip("\"'“”")
    sentence = _SYMBOLS.sub("", _strip_words_beside(sentence))
    for remark, plain in _REMARKS:
        sentence = remark.sub(plain, sentence)
    sentence = _cut_remark(sentence)
    emphasized = _EMPHASIZED.fullmatch(sentence)
    return strip_math_marks(emphasized["content"] if emphasized else sentence)


def _strip_words_beside(sentence: str) -> str:
    """Return a line that begins with a number in digits and in words, with the digits alone: "12 (twelve) eggs"."""
    for pattern in (_NUMBER_AND_WORDS, _WORDS_AND_NUMBER):
        found = pattern.match(sentence)
        if found and read_number_words(found["words"].lower()) == found["number"].replace(",", ""):
            return found["number"] + sentence[found.end() :]
    return sentence


def _cut_remark(sentence: str) -> str:
    for remark in _REMARK.finditer(sentence):
        value, words = sentence[: remark.start()], sentence[remark.start() :]
        if _HAS_VALUE.search(value) and is_value(value.strip("* _`")):
            return sentence if _UNDOES.search(words) or find_retraction(words) is not None else value
    return sentence


_LEAD = re.compile(
    r"\A(?:(?:therefore|thus|hence|then|so|simply|just|clearly|indeed)\b\s*[:,]?|\([A-H]\))\s+(?=[-−+$\\\d*])",
    re.IGNORECASE,
)
"""A word or an option's letter before the value."""
_SYMBOLS = re.compile(r"[\s\ufe0f✅✔✓☑★⭐\U0001f300-\U0001faff]+\Z")
_HAS_VALUE = re.compile(r"\d|\\[a-zA-Z]|[½⅓⅔¼¾π∞]|\$[^$]+\$")
_REMARK = re.compile(
    r"""
      \s*[,;:]\s+(?=(?:because|since|as|so|which|whose|where|while|whereas|not|but\s+not|and\s+not|rather\s+than
        |instead\s+of|(?:one|two)\s+(?:more|less|fewer)\s+than|namely|i\.e|rounded|exactly|just|thanks|taking|considering|including|excluding|assuming|given
        |obtained|found|meaning|hence|thus|therefore|using|by|according|under|due|in\s+(?:total|all|other\s+words)
        |the(?![^,;]*\b(?:other|second|another|rest)\b)|with(?!\s+(?:a\s+)?remainder))\b)
    | ;\s+(?=(?:the|this|that|it|we|you|no|all|note|see|here|any)\b)
    | \s+(?:because|assuming|which)\b
    | (?<=[\d})$%\]])\s+since\b(?!\s+\d)
    | (?<=[\d})$%\]*])\s+(?:is|are)\s+(?:the|our)\s+(?:(?:only|unique|final|required|desired|correct|right|real|sought
        |possible)\s+){0,3}(?:solution|answer|value|result|root|one)s?\b
    | \s*(?:\s[–-]|—)\s+(?=[^\W\d_]{2})
    | \s*\((?=[^\W\d_]{2}[^()]*(?:\([^()]*\)[^()]*)*\)[\s*_]*\Z)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""The beginning of a remark: "45, because ...", "45; the others ...", "45 — as shown", "45 (see above)"."""
_UNDOES = re.compile(
    r"""
      \A[\s,;:—–(-]*(?:or|either|and(?!\s+not)|plus|minus|times|maybe|perhaps|possibly|probably|if|unless|otherwise|but(?!\s+not)
        |however|wait|no|nope|hmm+|sorry|actually|incorrect|wrong|false|mistake|before|after|until|half|more|less
        |fewer|(?!(?:one|two)\s+(?:more|less|fewer)\s+than)(?:zero|one|two|three|four|five|six|seven
        |eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred)|remainder|approx\w*|about|roughly|units?|per
        |as\s+(?:a\s+)?(?:guess|first))\b
    | \b(?:maybe|perhaps|possibly|not\s+(?:sure|certain|correct|right)|unsure|uncertain|remainder|otherwise
        |(?:an?|my\s+best|wild|educated)\s+guess)\b
    | \b(?:which|that|this|it)\s+(?:is|was|seems|looks|would\s+be|can(?:no|['’])t\s+be)\s+
      (?:\w+\s+)?(?:wrong|incorrect|false|mistaken|impossible|right|not)\b
    | \?
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Words that take a value back, leave it open or join another one to it."""
_NUMBER_AND_WORDS = re.compile(r"(?P<number>\d[\d,]*)\s*\((?P<words>[a-zA-Z, -]+)\)")
_WORDS_AND_NUMBER = re.compile(r"(?P<words>[a-zA-Z][a-zA-Z -]*?)\s*\((?P<number>\d[\d,]*)\)")
_NOT_ELSEWHERE = r"(?:not|no|nicht|et\s+non|non|y\s+no|und\s+nicht|e\s+não|não|niet|не)"
_REMARKS = (
    # not 6, as one may think, but 7
    (
        re.compile(r"\Anot\s[^.;:]{1,80}?,?\s+but\s+(?:rather\s+|in\s+fact\s+)?(?=[-+$\\\d])", re.IGNORECASE),
        "",
    ),
    # $81$ !: after a space the mark is no factorial
    (re.compile(r"(?<=[$)\]])\s+!\Z"), ""),
    # 81 (not 18, which is the sum)
    (re.compile(rf"(?<=[\d}}$%\]])\s+\({_NOT_ELSEWHERE}\s[^()]*\)\Z", re.IGNORECASE), ""),
    # 3/4, or 0.75
    (re.compile(r"(?<=[\d}$%\]]),\s+or\s+(?=[-+$\\\d])"), " or "),
    # 3/4, that is, 0.75
    (
        re.compile(
            r"(?<=[\d}$%\]]),\s*(?:that\s+is|i\.e\.|or\s+equivalently|d\.\s?h\.|das\s+heißt|o\s+sea|es\s+decir|c['’]est-à-dire"
            r"|soit|cioè|ou\s+seja|т\.\s?е\.|то\s+есть)\s*,?\s*(?=[-+$\\\d])",
            re.IGNORECASE,
        ),
        " = ",
    ),
)
"""Words beside a number that leave its value, and what stands in their place."""
_EMPHASIZED = re.compile(
    r"(?:(?P<mark>[*_])(?=[^\s*_])|<(?P<tag>b|strong|i|em|u|code|mark)>)(?P<content>[^*<>]*)"
    r"(?(mark)(?P=mark)|</(?P=tag)>)",
    re.DOTALL,
)
