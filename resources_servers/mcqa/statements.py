r"""The option that one statement names: "C", "(C) Nitrogen", "option C because ...", "nitrogen".

A statement is a name with words around it. The name is a letter, or all of an option's text. The words may lead to the
name or explain it, and they must neither name another option, nor deny the name or leave it open: then the statement
names nothing. Nor does a name that is a part of something else, such as 12 in `12^2`, or "Rome" in "New Rome".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nemo_gym.verify.folding import fold_compatibility
from nemo_gym.verify.matching import DENIAL, normalize
from resources_servers.mcqa.option_texts import (
    Options,
    find_same,
    has_phrase,
    has_words,
    is_same_text,
    plain_text,
)
from resources_servers.mcqa.remarks import REASON, is_only_choice, strip_denied_others

MAX_CHARS = 5_000
"""A longer statement names nothing."""


def find_lettered(
    statement: str, options: Options, *, may_explain: bool, is_strict: bool = False
) -> str | None:
    """Return the option that a statement names by its letter: alone, as a label ("C: Nitrogen"), or with its text.

    `may_explain`: words may follow a letter that is no label ("C because ..."). `is_strict`: the letter is in upper
    case, and no words lead to it ("option C").
    """
    if len(statement) > MAX_CHARS:
        return None
    lead, content = ("", _letter_text(statement)) if is_strict else _split_lead(_letter_text(statement))
    found = _LETTER.match(content)
    letter = found["letter"].upper() if found else ""
    if found is None or letter not in options or (is_strict and found["letter"] != letter):
        return None
    rest, label = found["rest"].strip(), found["label"].strip()
    if not rest.strip(_BENIGN):
        return letter
    if _is_own(rest, letter, options):
        return letter
    is_word = found["letter"] in "aAI" or found["letter"].islower()
    has_own_text = not is_strict and has_phrase(rest, options[letter])
    is_marked = (
        bool(label)
        or has_own_text
        or lead.endswith("#")
        or rest[0] in ",;("
        or REASON.match(rest.lstrip(" ,;:(–—-")) is not None
        or (may_explain and strip_denied_others(rest, letter, options) != rest)
    )
    if not is_marked and (is_word or not may_explain):
        return None
    if not label and (not (may_explain or has_own_text) or rest[0] in _OPERATORS):
        return None
    if find_same(statement, options) not in (None, letter):
        return None
    return letter if is_only_choice(letter, rest, options, label) else None


def find_labelled(statement: str, options: Options) -> str | None:
    """Return the option that a statement names by its letter and all of its text: "C) Nitrogen".

    A letter in lower case needs a mark behind it.
    """
    found = _LETTER.match(_letter_text(statement)) if len(statement) <= MAX_CHARS else None
    letter = found["letter"].upper() if found else ""
    if found is None or not options.get(letter) or (found["letter"] != letter and not found["label"].strip()):
        return None
    return letter if _is_own(found["rest"].strip(), letter, options) else None


def find_by_text(statement: str, options: Options, *, may_explain: bool) -> str | None:
    """Return the option whose text is all that a statement names.

    `may_explain`: words may follow the text ("Nitrogen because ...").
    """
    if len(statement) > MAX_CHARS:
        return None
    named = find_same(statement, options) or find_same(statement.rstrip(" ."), options)
    if named is not None:
        return named
    content = plain_text(statement)
    content = _IN_BRACKETS.sub(r"\1", content)
    for lead in (_split_lead(content)[1], _without_subject(content, options)):
        for head, tail in _split_tail(lead, may_explain=may_explain):
            letter = find_same(head, options)
            if letter is not None:
                return letter if not tail or _is_gloss(head, tail, letter, options) else None
    return None


_IN_BRACKETS = re.compile(r"\A\(([^(),;]*)\)\Z")
_QUOTED = re.compile(r"(?<!\w)['’‘\"“”]([A-Za-z])['’‘\"“”](?!\w)|<([A-Za-z])>(?!.*</)")


_CHEERS = re.compile(r"[\s\ufe0f]*(?![👎🚫🤔😕😬🙃🤷🛑])[\U0001f300-\U0001faff]+\W*\Z")
"""A picture behind a name that doubts nothing."""


def _letter_text(statement: str) -> str:
    text = re.sub("[′‵]", "'", fold_compatibility(plain_text(_CHEERS.sub("", statement))))
    return _QUOTED.sub(lambda quoted: quoted[1] or quoted[2], text).strip()


_LEAD_WORDS = (
    "so|thus|hence|therefore|clearly|definitely|certainly|obviously|simply|surely|just|is|it is|it's|it’s|that is"
    "|it must be|must be|should be|would be|i choose|i pick|i select|my|the|correct|right|best|final|most likely"
)
_KIND_WORDS = "option|choice|letter|answer|ans|alternative"
_LEAD = re.compile(
    rf"\W*(?P<words>(?:(?:{_LEAD_WORDS}|{_KIND_WORDS})\b[\s:,*]*)+)(?=[\W_]*\w)", re.IGNORECASE
)


def _split_lead(content: str) -> tuple[str, str]:
    """Return the words that lead to a name, with "#" at the end if the last one says that a letter follows."""
    match = _LEAD.match(content)
    if match is None:
        return "", content
    lead, rest = match["words"].rstrip(" :,*\t\n"), content[match.end() :]
    is_kind = re.search(rf"\b(?:{_KIND_WORDS})$", lead, re.IGNORECASE) is not None
    return lead + "#" * is_kind, rest


_BENIGN = " \t\n.,:;!`_\"”'’)]}✅✔✓☑\ufe0f…🙂😊🎉👍"
_OPERATORS = "+*/^<>%|&\\~-"
_LETTER = re.compile(
    r"(?:[-–—•*·]\s+|[^\w\-–—−¬~!≠≢∉^%/\\+@&?'’*|†‡❌✗✘✖❎🚫⛔👎<>])*"
    r"(?P<letter>[A-Za-z])"
    r"(?![\w^+#%/\\<>~*|'’?&†‡]|[-–—]\S|[\u0300-\u036f\u20d0-\u20ff])"
    r"(?P<label>\s*[)\]}]+\s*(?:[:.,;=→]|-(?=\s))?|\s*[:.]|\s+[-–—→](?=\s)|-(?=\s)|)"
    r"(?P<rest>.*)",
    re.DOTALL,
)


def _is_own(rest: str, letter: str, options: Options) -> bool:
    """Return whether the words after a letter are all of its text, or the letter again."""
    own, said = (
        options[letter],
        rest.strip(" \t\n:.,;=→").removeprefix("- ").removeprefix("– ").removeprefix("— "),
    )
    bracketed = re.fullmatch(r"\((.*)\)[.!]?", said, re.DOTALL)
    candidates = (rest, said, bracketed[1] if bracketed else "")
    return any(bool(text) and (is_same_text(own, text) or text == letter) for text in candidates)


_SEQUEL = re.compile(
    r"\W*(?:then|and|but|or|before|after|until|while|although|though|however|yet|plus|with|without|than|followed|later"
    r"|afterwards?|finally|also|next|only|initially|sometimes|usually|often|rarely|partly|at\s+(?:first|least|most)|if|unless|when|instead|otherwise|alternatively)\b",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"(?:[^\W\d_][\w ,'’-]{0,80}?\s)(?:is|are|was|were|be|equals)[:\s]+(?P<rest>\S.*)", re.DOTALL
)
_EQUATION = re.compile(
    r"(?P<left>[a-zA-Z](?:_\{?\w+\}?)?(?:\([a-z]\))?'?|(?:[\d\s+*/^().{}-]|\\(?:c?dot|times|d?frac|sqrt|div)(?![a-zA-Z])|×|·)+)"
    r"\s*=(?P<rest>[^=]+)"
)


def _without_subject(content: str, options: Options) -> str:
    """Return a statement without the words or the side of an equation that say what it is about."""
    equation = _EQUATION.fullmatch(content)
    if equation:
        left = equation["left"].strip()
        return content if left in options or find_same(left, options) else equation["rest"].strip()
    subject = _SUBJECT.match(content)
    if subject is None or DENIAL.search(normalize(content[: subject.start("rest")])):
        return content
    return subject["rest"]


_COMMENT = (
    r"of\s+course|for\s+(?:sure|certain|the|these|this|that|all)|clearly|obviously|definitely|certainly|surely|indeed"
    r"|most\s+likely|in\s+my\s+opinion|i\s+(?:think|believe|hope|am)|by\s+(?:definition|elimination|process|far|inspection)"
    r"|based\s+on|according\s+to|per\s+the|from\s+(?:step|the|part)|see|which|that\s+is|i\.e|aka|namely|being"
    r"|also\s+(?:known|called)|(?:has|have)\s+the|seems?|looks?|fits|works|wins|matches|follows|satisfies|gives|makes|means"
    r"|stands\s+for|(?:must|should|would|can\s+only|has\s+to)\s+be|it\s+(?:is|must)|no\s+doubt|without\s+(?:a\s+)?(?:doubt"
    r"|question)|not\s+surprisingly|and\s+(?:that|this)\s+is|and\s+nothing\s+else|after\s+(?:checking|eliminating|ruling)"
    r"|because|since|as|given|due|is|are|was"
)
_TAIL = re.compile(
    rf"\s*\((?!\))|\s+[-–—]\s|[.;:!,](?=\s)|\s+(?:{_COMMENT})\b|\s+(?:and|but)\s+not\b|\s+(?=[✅✔✓☑🙂😊🎉👍])",
    re.IGNORECASE,
)
_MOST_TAILS = 20


def _split_tail(content: str, *, may_explain: bool) -> Iterator[tuple[str, str]]:
    """Yield a statement as a text and the words that follow it, the longest text first."""
    yield content, ""
    tails = list(_TAIL.finditer(content))
    if len(tails) > _MOST_TAILS:
        tails = [*tails[: _MOST_TAILS // 2], *tails[-_MOST_TAILS // 2 :]]
    for match in reversed(tails):
        if may_explain or match[0] in (".", "!") or _LETTER_AGAIN.fullmatch(content, match.start()):
            yield content[: match.start()], content[match.start() :]


_LETTER_AGAIN = re.compile(
    r"[\s,(–—-]*(?:which\s+is\s+)?(?:(?:option|choice)[\s(]*)?(?P<letter>[A-Za-z])[)\s.]*", re.IGNORECASE
)
_COMMENTED = re.compile(rf"[\s,]*(?:{_COMMENT}|option|choice|so|hence|thus|therefore|\W*$)", re.IGNORECASE)
_APPOSITION = re.compile(r",\s+(?:[A-Z]|(?:an?|the)\s)")
_PRONOUN = re.compile(r"\W*(?:it|they|he|she|we|you|there|this|that|if|when)\b", re.IGNORECASE)


def _is_gloss(head: str, tail: str, letter: str, options: Options) -> bool:
    """Return whether the words after an option's text explain it, and do not make it a part of something else."""
    tail = strip_denied_others(tail, letter, options)
    if not tail.strip(" ."):
        return True
    again = _LETTER_AGAIN.fullmatch(tail)
    if again is not None and again["letter"].upper() == letter:
        return True
    if _COMMENTED.match(tail) is None:
        is_apposition = _APPOSITION.match(tail) is not None and _PRONOUN.match(head) is None
        if _SEQUEL.match(tail) or (tail.startswith(",") and not is_apposition):
            return False
    if not has_words(head) and not re.match(r"[\s(.,:;!–—-]*(?:[^\W\d_]{2,}|I\b|$)", tail):
        return False
    return is_only_choice(letter, tail, options, tail[:1] if tail[0] in ".!" else "")
