r"""The words after the name of an option: whether they leave its choice alone.

They may explain it ("C because ...", "C. I hope it is correct."). They take it back if they name another option, deny
the named one or leave it open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nemo_gym.verify.matching import DENIAL, normalize, whole_words
from nemo_gym.verify.numbers import read_quantity
from resources_servers.mcqa.option_texts import (
    Options,
    find_same,
    has_phrase,
    has_words,
    is_same_number,
    plain_text,
)

REASON = re.compile(
    r"\b(?:because|since|(?<!well\s)(?<!much\s)as(?!\s+(?:well|much|good|likely|an?\s+(?:first|second|last))\b)|given|due"
    r"|for(?!\s+(?:now|the\s+moment|starters)\b)|(?:while|whereas|although|though)(?=\s+(?:option\s+)?\S+\s+[a-z]))\b",
    re.IGNORECASE,
)


_AUXILIARY = (
    r"(?:\W*\b(?:it|this|that|which|option|choice|answer|is|are|was|were|has|have|had|can|could|would|will|should|may"
    r"|might|must|seems?|appears?|looks?|been|be|being|to|gets?|got|already|clearly|definitely|also|now|obviously|a|an"
    r"|the|just)\b)*\W*"
)
_REFUSED = re.compile(
    rf"{_AUXILIARY}\b(?:ruled\s+out|out(?!\s+of\b(?!\s+the\s+question))|off(?!\s+of)|eliminated|excluded|discarded|dismissed|rejected|refuted|disproved|struck"
    r"|crossed|discounted|disqualified|removed|dropped|mistaken|(?:mistake|error|trap)(?!\s+(?:is|was|in|of|here))|erroneous|invalid|untenable|unsound|unacceptable|infeasible|irrelevant|misleading|absurd|nonsense|untrue|inaccurate|impossible"
    r"|implausible|improbable|doubtful|questionable|unsure|uncertain|distractor|decoy|complement|negated|negation|half|partly|partially|red\s+herring"
    r"|unsupported|disallowed|bad|worse|worst|incompatible|inconsistent)\b",
    re.IGNORECASE,
)
_FAULTY = re.compile(
    r"\W*(?:fails?|failed|contradict\w*|violat\w*|lacks?|ignores?|overlooks?|misses|conflicts?|disagrees?|has\s+(?:a|an|the)"
    r"\s+(?:error|flaw|problem)|goes\s+against)\b",
    re.IGNORECASE,
)
_LEFT_OPEN = re.compile(
    r"\W*(?:(?:it|this|that|which)\s+)?(?:might|may|could|if|unless|depending)\b", re.IGNORECASE
)
_HEDGE = re.compile(
    r"\b(?:otherwise|alternatively|alternately|versus|vs|failing\s+that|unless|either|(?:just|equally|almost|nearly)\s+as"
    r"\s+(?:likely|plausible|possible|good|probable)|equally)\b|[❌✗✘✖❎🚫⛔👎]",
    re.IGNORECASE,
)
_DISTRUST = re.compile(
    r"\b(?:wrongly|mistakenly|incorrectly|erroneously|falsely|misconception|misunderstanding|fallacy|pitfall|tempting"
    r"|runner[- ]up|second[- ]best|far\s+from\s+(?:right|correct|true|certain)|opposite\s+of\s+(?:the|what)"
    r"|(?:common|typical|frequent|popular|classic|usual|easy|careless|naive)\s+"
    r"(?:mistake|error|trap|confusion|slip|blunder|wrong|guess)s?"
    r"|what\s+(?:most|many|some)\s+(?:people|students|readers|beginners|test[- ]takers|would|might|will)\b.{0,80}"
    r"\b(?:pick|choose|select|guess|say|think|assume|answer)"
    r"|(?:least|less)\s+(?:likely|plausible|probable|suitable|accurate|appropriate|convincing|reasonable|correct)"
    r"(?=\W*$|\s+(?:options?|choices?|answers?|candidates?|one|of|to\s+be|among|here|than)\b))",
    re.IGNORECASE,
)
"""Remarks that reject an option without a word of denial. "The least likely to react" describes it."""
_ABOUT_IT = re.compile(
    r"\W*(?:but\s+)?(?:it|this|that|which)(?:['’]s|\s+(?:is|was|seems|looks))\b", re.IGNORECASE
)
_IDIOM = re.compile(
    r"\bnot\s+to\s+be\s+(?:confused|mixed\s+up|mistaken)\b[^.;)]*|\b(?:no\s+(?:doubt|question)|without\s+(?:a\s+|any\s+)?(?:doubt|question)|beyond\s+(?:a\s+|any\s+)?doubt)\b"
    r"|\b(?:all\s+)?(?:the\s+)?(?:others?|rest|everything\s+else|none\s+of\s+the\s+others|(?:other|remaining)\s+(?:two\s+|three\s+|four\s+)?(?:options|choices|answers|ones|two|three|four))\s+(?:is|are|were|do|does|can|fits?)"
    r"(?=\W|n['’]t)[^.;]*|\bnot\s+surprisingly\b|\bno\s+other\s+\w+|\bnot\s+(?:the\s+other\s+way\s+a?round|vice\s+versa|conversely)\b"
    r"|\b(?:rather\s+than|instead\s+of|as\s+opposed\s+to|unlike|over)\s+(?:option\s+)?\(?[A-Z]\b",
    re.IGNORECASE,
)


def is_only_choice(letter: str, rest: str, options: Options, label: str = "") -> bool:
    """Return whether the words after an option's name leave its choice alone. `label` is the mark between them.

    Later sentences may mention other options and deny other things, but not take the choice back.
    """
    is_open = rest.rstrip(" )].\"'").endswith("?")
    if is_open or (not label and (_LEFT_OPEN.match(rest) or _FAULTY.match(rest))):
        return False
    reason = REASON.search(rest)
    statement, explanation = (rest[: reason.start()], rest[reason.start() :]) if reason else (rest, "")
    core = statement.strip(_AROUND)
    if _ALTERNATIVE.search(explanation) or find_same(core, options) not in (None, letter):
        return False
    core = _BRACKETED_FACT.sub(_strip_fact, core) if "(" in statement else core
    remark = _without_own_text(core, options[letter])
    if remark is None:
        return False
    is_behind_label = bool(label) and remark == core
    is_bracketed = remark != core and _BRACKETED.fullmatch(remark) is not None
    if not is_behind_label:
        remark = strip_denied_others(remark, letter, options)
    first, *later = re.split(r"(?<=[.!])\s+", _IDIOM.sub(" ", remark))
    if is_bracketed or (label.endswith((".", "!")) and is_behind_label):
        first, later = "", [first, *later]
    return not _is_taken_back(first, letter, options) and not any(
        _is_taken_back_later(sentence, letter, options) for sentence in later
    )


_BRACKETED_FACT = re.compile(r"\(?(?P<fact>[A-Z]\)?\s+[^()]*)\)?\Z")


def _strip_fact(bracketed: re.Match[str]) -> str:
    """Return "" for a bracket that tells a fact of another option: "(B is the sum of both)"."""
    return "" if _find_described(bracketed["fact"]) else bracketed[0]


_BRACKETED = re.compile(
    r"\s*\((?!\s*(?:or|and|also|maybe|perhaps|possibly)\b)[^()]{3,}\)?[\s.]*", re.IGNORECASE
)
_KIND = r"(?i:(?:the\s+)?(?:options?|choices?|answers?)\s+)?"
_JOINED = r"\s*(?:,\s*(?:and|or|nor)\s|,|\band\b|\bor\b|\bnor\b|&)\s*"
_DENIED_ONES = (
    r"\s+(?:(?:is|are|was|were|being|has\s+been|have\s+been|can\s+be|must\s+be|would\s+be|seems?|looks?|clearly|simply"
    r"|obviously|both|all|does|do|did|can|could|has|have|would)\b\s*){0,4}"
    r"(?:(?:\w+n['’]t|cannot|not)\b"
    r"(?!\s+(?:wrong|incorrect|false|ruled|impossible|excluded|eliminated|out|only|just|merely)\b)"
    r"(?:\s+(?:be\s+)?(?:right|correct|true|possible))?"
    r"|wrong|incorrect|false|ruled\s+out|eliminated|excluded|rejected|impossible|implausible|out\b|fails?\b|contradicts?\b)"
    r"(?![^.;]*\b(?:right|correct|too|also|possible|either|well)\b)[^.,;)]*"
)


_LONGEST_REMARK = 500
"""A longer remark is not searched for denials of other options."""


def strip_denied_others(remark: str, letter: str, options: Options) -> str:
    """Return a remark without the clauses that deny other options: "not A", "A is wrong", "(A and D are wrong)"."""
    others = [other for other in options if other != letter]
    if (
        not others
        or len(remark) > _LONGEST_REMARK
        or (DENIAL.search(normalize(remark)) is None and _NEGATIVE.search(remark) is None)
    ):
        return remark
    texts = "|".join(rf"(?i:{re.escape(options[other])})" for other in others if has_words(options[other]))
    numbers = "|".join(re.escape(options[other]) for other in others if options[other].isdecimal())
    named = "|".join(
        filter(
            None,
            (
                rf"[{''.join(others)}]\)?(?:[.:]?\s+(?:{texts}))?" if texts else f"[{''.join(others)}]",
                texts,
                numbers,
            ),
        )
    )
    name = rf"{_KIND}\(?(?:{named})\)?(?!\w)"
    names = rf"{name}(?:{_JOINED}{name}){{0,9}}"
    clause = (
        rf"(?:^|[,;:(–—]|(?<=[.!])\s|\s-\s|\b(?:and|but|as|while)\b)\s*(?:(?:and|but|so|while)\s+)?"
        rf"(?:(?i:(?:(?:definitely|certainly|clearly|surely)\s+)?(?:not|never))\s+{names}(?=\W*$|\s*[,;.)])|{names}{_DENIED_ONES})"
    )
    return re.sub(clause, " ", remark)


_NEGATIVE = re.compile(
    r"n['’]t\b|\b(?:ruled|eliminated|excluded|rejected|impossible|implausible|out|fails?|contradicts?)\b",
    re.IGNORECASE,
)


def _without_own_text(remark: str, own_text: str) -> str | None:
    """Return the words after an option's own text; None when they make it a part of something else."""
    own, said = plain_text(own_text), plain_text(remark)
    if not own:
        return remark
    one, other = read_quantity(own), read_quantity(said)
    if one is not None and other is not None:
        return "" if is_same_number(one, other) else None
    found = re.match(whole_words(own.rstrip(".")), said, re.IGNORECASE)
    if found is None:
        return None if one is not None and re.match(r"[+-]?[\d.]", said) else remark
    is_continued = not has_words(own) and re.match(r"\s*[\^!%*/+<>=\\·×÷_-]", said[found.end() :])
    return None if is_continued else said[found.end() :]


def _is_taken_back(sentence: str, letter: str, options: Options) -> bool:
    """Return whether the sentence of a choice names another option, denies the choice or leaves it open."""
    said = normalize(sentence)
    if set(find_letters(sentence, options)) - {letter} or _names_text(said, letter, options):
        return True
    found = (_REFUSED.match(said), DENIAL.search(said), _HEDGE.search(said), _DISTRUST.search(said))
    return any(denial is not None for denial in found)


def _is_taken_back_later(sentence: str, letter: str, options: Options) -> bool:
    """Return whether a later sentence names another option as a choice, or denies the choice."""
    if _OTHERS_DENIED.match(sentence):
        return False
    said = normalize(sentence)
    described = re.findall("[A-Z]", " ".join([*_DESCRIBED.findall(sentence), *_find_described(sentence)]))
    mentioned = set(find_letters(sentence, options)) - {letter, *described}
    is_alternative = _ALSO.match(sentence) is not None or len(said.split()) < 3
    if mentioned or (is_alternative and _names_text(said, letter, options)):
        return True
    found = (_REFUSED.match(said), _RETRACTION.search(said), _HEDGE.search(said))
    is_distrusted = _ABOUT_IT.match(said) is not None and _DISTRUST.search(said) is not None
    return is_distrusted or any(denial is not None for denial in found)


def _find_described(sentence: str) -> list[str]:
    """Return the names of options of which a clause tells a fact, and that none chooses: "A is a capital"."""
    named = () if _CHOOSES.search(sentence) else _NAME_IN_BRACKETS.findall(sentence)
    facts = (_FACT.match(clause) for clause in _CLAUSES.split(sentence))
    return [*named, *(fact["names"] for fact in facts if fact and _CHOOSES.search(fact["fact"]) is None)]


_NAME_IN_BRACKETS = re.compile(r"(?<=\w\s)\(([A-Z])\)")
_CLAUSES = re.compile(r"[,;]\s+(?:and|but|while|whereas)\s+")
_FACT = re.compile(
    r"\W*(?P<names>\(?[A-Z]\)?(?:(?:,\s+|,?\s+and\s+)\(?[A-Z]\)?){0,9})\s+(?P<fact>(?:is|are|was|were)\s+[a-z].*)"
)
_CHOOSES = re.compile(
    r"\b(?:also|too|as\s+well|either|possible|plausible|correct|right|true|valid|fine|acceptable|better|best|answers?|options?"
    r"|choices?|likely|close|tempting|second|next|it|one|another|alternative|equally|good|mine|chosen|picked|selected|preferred)\b"
    r"|\A\w+\s+\w+\W*\Z",
    re.IGNORECASE,
)
"""Words of a fact that may choose its subject: "A is also right", "A is possible", "A is it"."""


def _names_text(said: str, letter: str, options: Options) -> bool:
    own = normalize(options[letter])
    beside = re.sub(whole_words(own), " ", said) if own else said
    return any(has_phrase(beside, text) for other, text in options.items() if other != letter)


_OTHERS_DENIED = re.compile(
    r"\W*(?:(?:options?|choices?|answers?)\s+)?\(?[A-Z]\)?(?:\s*(?:,|and|or|nor|,\s*and)\s*\(?[A-Z]\)?)*\s+"
    r"(?:(?:is|are|was|were|do|does|did|can|could|would|has|have)n['’]t\b|[^.]*?\b(?:cannot|not|wrong|incorrect|false"
    r"|eliminated|excluded|impossible|out)\b)(?![^.]*\b(?:right|too|also|possible)\b)"
)
_DESCRIBED = re.compile(
    r"(?<!\w)((?:[A-Z](?:,\s+|,?\s+and\s+)){0,9}[A-Z])\s+(?!(?:is|are|both|all|work|fit|was|or|and|if|then|would|could|may|might|can|will|also|instead|as|to|but|seems|looks"
    r"|fits|works|too|otherwise|for|when|please|maybe|perhaps|possibly|comes|follows|second|next)\b)[a-z]+"
)
_ALSO = re.compile(
    r"\W*(?:also|or|and|otherwise|alternatively|maybe|perhaps|possibly|then|else|second|option|choice|but|next|plus)\b",
    re.IGNORECASE,
)
_RETRACTION = re.compile(
    r"\bnot\s+(?:sure|certain|right|correct|true|it\b|the\s+(?:right|correct|answer))|\b(?:wrong|incorrect|false|unlikely"
    r"|maybe|perhaps|possibly|either|wait|actually|scratch|kidding|correction|sorry|never\s*mind)\b|^\W*(?:no|not|or)\b(?!\s+other)"
    r"|^\W*(?:but\s+)?(?:it|this|that)\s+(?:\w+n't|cannot|\w+\s+not)(?:\s+(?:be|work|fit|hold|apply|follow|match)\b|\W*$)"
)


_AROUND = " \t\n:.,;=→()"
_ALTERNATIVE = re.compile(
    r"\b(?:otherwise|alternatively|alternately|failing that|or\s+(?:maybe|perhaps|possibly|else))\b[^.]{0,40}"
    r"\b[A-Z](?!\w)"
    r"|(?<!\w)[A-Z]\b[^.;]*\b(?:just\s+as|equally|as\s+likely|also\s+(?:possible|plausible|works|fits|right|correct))\b"
    r"|(?<!\w)[A-Z]\W+(?:otherwise|as\s+(?:an\s+alternative|well))\b",
    re.IGNORECASE,
)


_CLASS_NOUNS = (
    "vitamin|hepatitis|influenza|type|group|class|grade|plan|set|point|factor|protein|figure|part|section|table|phase"
    "|company|team|strain|line|vessel|sample|substance|compound|person|country|region|model|category|level|schedule"
)
_NAMED = re.compile(
    rf"(?P<noun>\b(?i:{_CLASS_NOUNS})\s+)?(?<![\w'’^_\\])(?P<letter>[A-Z])(?![\w'’])(?P<after>\.?\s+[A-Za-z]+)?"
)
_VERB = re.compile(
    r"(?:is|are|was|or|and|if|then|would|could|may|might|can|will|also|instead|as|to|but|seems|looks|fits|works|too"
    r"|otherwise|because|since|when|for)\b"
)
_LOWER_LETTER = re.compile(
    r"\b(?:or|and|then|also|vs|versus|not|option|choice)\W+([a-z])(?![\w'’])|[,/&;]\s*([b-z])\W*$"
)


def find_letters(statement: str, options: Options) -> Iterator[str]:
    """Yield the letters that a statement names. An article, a pronoun and "vitamin C" name none."""
    for match in _NAMED.finditer(statement):
        if match["letter"] not in options or match["noun"]:
            continue
        word = (match["after"] or "").lstrip(".").strip()
        starts = re.search(
            r"(?:^|[.!?:;])\W*$", statement[max(0, match.start("letter") - 5) : match.start("letter")]
        )
        is_spaced = match["after"] is not None and not match["after"].startswith(".")
        is_pronoun = (
            match["letter"] == "I" and is_spaced and word.islower() and word not in ("is", "and", "or")
        )
        is_article = (
            match["letter"] == "A" and is_spaced and starts and word[:1].islower() and not _VERB.match(word)
        )
        if not is_pronoun and not is_article:
            yield match["letter"]
    for match in _LOWER_LETTER.finditer(statement):
        letter = (match[1] or match[2]).upper()
        if letter in options and match[1] not in ("a", "i"):
            yield letter
