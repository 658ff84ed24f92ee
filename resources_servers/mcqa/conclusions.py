r"""The choice that a text states in a sentence, without a box, a tag or an "Answer:" line.

    I choose C.  So it must be (B).  Thus the best choice is: E     a cue before the name of an option
    Option C is correct.  D rather than B is right.                 a cue after it
    答案是 C。  La bonne réponse est C.                              the same in other languages

The last such sentence counts. A text may take its choice back ("Sorry, that is wrong"), and a statement that names
several options chooses none. A question, a condition, a guess and what others say state nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from nemo_gym.verify.answer_marks import FOREIGN_ANSWER_WORDS, find_aside
from nemo_gym.verify.corrections import find_retraction, is_crossed_out
from nemo_gym.verify.sentences import split_sentences
from resources_servers.mcqa.option_texts import Options, find_same, has_phrase
from resources_servers.mcqa.remarks import is_only_choice
from resources_servers.mcqa.statements import find_by_text, find_lettered


class Conclusion(NamedTuple):
    """An option, or None where the text takes its choice back or names several options."""

    letter: str | None


class _Found(NamedTuple):
    place: int
    conclusion: Conclusion


_BEST = r"(?:correct|right|best|proper|appropriate|accurate|valid|final|better|likely|only|remaining|most|suitable)"
_KIND = r"(?:options?|choices?|answers?|letter|alternative|one|selection|response)"
_SO = r"(?:so|thus|hence|therefore|consequently|accordingly|finally|overall|in\s+conclusion|ergo)"
_IT_IS = (
    r"(?:(?:it|this|that|the\s+answer)\s+(?:has\s+to|must|should|can\s+only)\s+be|(?:it|this|that)(?:\s+is|['’]s)"
    r"|(?:it|this|that)\s+would\s+be|we\s+(?:have|get|choose))"
)
_SURELY = r"(?:\s+(?:clearly|definitely|obviously|certainly|simply|therefore|thus|then|indeed|surely))?"
_FITTING = (
    r"(?:\s+that\s+(?:(?!not\b|\w+n['’]t|wrong|incorrect|false|least|students|people|many|some)"
    r"[\w'’]+\s+){1,5}?(?=is))"
)
_EXPLAINED_CUES = (
    rf"(?:{_BEST}\s+){{0,3}}{_KIND}(?:\s+(?:here|left|remaining|overall)|{_FITTING})?\s*"
    rf"(?:(?<=\s)(?:is|was|being|remains|(?:must|should|has\s+to)\s+be){_SURELY}|[:：=]|→|[-=]>|\s[-–—])",
    r"(?:ans|choice|selection|result|decision|verdict|pick)\s*\.",
    r"(?:ans|choice|selection|result|correct|solution|selected|pick|decision|verdict|edit|update)\s*(?:\.?\s*[:：=→]|[-=]>|\s[-–—])",
    r"(?:which|that|this|it|they)\s+(?:\w+\s+)?(?:is|matches|corresponds\s+to|points?\s+to|leaves?|gives?|equals|means"
    r"|agrees\s+with|suggests|implies|supports)\s+(?=\(?(?:option|choice|answer)\b)",
)
"""Words before the name of an option, after which words may explain the choice: "The answer is C, as in ..."."""
_BARE_CUES = (
    r"(?:choos|pick|select|mark)ing|(?:choose|prefer|pick|select|chose|picked|selected|vote\s+for|settle\s+(?:on|for)|opt\s+for|say"
    r"|go(?:ing)?\s+(?:with|for)|conclude(?:\s+that)?(?:\s+it\s+is)?)",
    r"(?:leav(?:es|ing)|leads?\s+to|match(?:es|ing)|correspond(?:s|ing)\s+to|points?\s+to|left\s+with)"
    r"(?:\s+us)?(?:\s+with)?(?:\s+only)?",
    rf"{_SO}\s*[,:]?(?:\s*{_IT_IS})?{_SURELY}\s*:?",
    rf"{_IT_IS}{_SURELY}\s*:?",
    r"not\s+(?:option\s+)?\(?[A-Z]\)?,?\s+but(?:\s+rather)?",
    r"answer(?:\s+is)?",
    r"i\s+(?:meant|mean)",
    r"(?:definitely|certainly|clearly|obviously|by\s+(?:the\s+)?(?:process\s+of\s+)?elimination)\s*,?",
    r"(?<!.)\W*(?:[-=]>|→|⇒|∴)",
    r"(?<!.)\W*(?:(?:oops|actually|correction|nope|no|wait|sorry|hmm+|scratch\s+that|rather|on\s+second\s+thoughts?"
    r"|nein|non|нет|moment|attendez)\b[\s,.:;!…–—-]+){1,3}",
    r"(?<!no\s)(?<!não\s)(?<!non\s)(?<!не\s)(?:c['’]est|es\s+ist|das\s+ist|dies\s+ist|es|è|é|это)\s+(?:(?:donc|also|somit|daher|quindi|portanto)\s+)?"
    r"(?:(?:la|die|a|o)\s+)?(?:bonne\s+|richtige\s+)?(?:réponse|antwort|option|opción|opção|opzione|respuesta|risposta|resposta"
    r"|вариант|ответ)",
    r"(?:верный|правильный)\s+(?:вариант|ответ)\s*[-–—:]",
    r"(?:ich\s+wähle|je\s+choisis|elijo|scelgo|escolho|eu\s+escolho|ik\s+kies|выбираю)",
    r"(?:应该?|應該?|所以|因此|故)?(?:正确的?选项|正確的?選項|选择?|選擇?)\s*(?:[:：]|是|为|為)?",
)
"""Words before a name that ends its sentence, or is followed by its reason: "So B."."""
_BEFORE = tuple(
    (
        re.compile(
            rf"(?<![A-Za-z])(?:{words})(?:(?<![A-Za-z])|(?![A-Za-z]))[\s*_:]*(?=[(\[\"'“$\\]*\w)",
            re.IGNORECASE,
        ),
        may_explain,
    )
    for cues, may_explain in ((_EXPLAINED_CUES, True), (_BARE_CUES, False))
    for words in cues
)
_AFTER = re.compile(
    r"(?:^|[,;:(—–-]\s|(?i:\b(?:so|thus|hence|therefore|that|and|then|only|option|choice|answer|but|or|however"
    r"|think|believe|thoughts?|reflection))\s)"
    r"\(?(?P<letter>[A-Z])\b\)?(?:\s*[,(:][^,()]{1,80}[,)])?\s*"
    r"(?:(?i:rather\s+than|,?\s*not)\s+(?i:(?:option|choice)\s+)?\(?[A-Z]\)?,?\s+)?"
    rf"(?i:it\s+is(?=\W*$)|(?:seems\s+to\s+be|appears(?:\s+to\s+be)?|is|must\s+be|has\s+to\s+be|remains|['’]s){_SURELY}(?:\s+(?:the|also|my|our))?\s+"
    rf"(?:(?:{_BEST}\s+){{0,2}}{_KIND}|correct|right|true|valid|it|the\s+one(?=\s+that\s+(?:matches|fits|works|satisfies)\b|\W*$)|(?:better|best)(?=\W*$))"
    r"(?=\s*(?:$|[.,;:!)]|\s(?:because|since|as|given|due|for|here|by)\b)))"
)
"""The name of an option before words that choose it: "Option C is correct"."""
_FITS = re.compile(
    r"(?:^|[,;:]\s|(?i:\b(?:so|thus|hence|therefore|option|choice))\s)\(?(?P<letter>[A-Z])\)?\s+(?i:makes\s+the\s+most\s+sense"
    r"|(?:best\s+)?fits\s+best|best\s+(?:fits|describes|matches|explains|answers|captures|completes)\b|matches\s+best)"
)
"""The name of an option before words that prefer it: "C fits best"."""
_AFTER_ELSEWHERE = re.compile(
    r"(?:^|[,;:]\s|\b(?i:option|opción|opção|opzione|optie|alternativ\w*|antwort|réponse|respuesta|risposta|resposta"
    r"|antwoord|letra|lettre|lettera|вариант|ответ)\s)\(?(?P<letter>[A-Z])\b\)?\s+"
    r"(?i:ist|est|es|è|é|está|is|är|er|jest|—|-)\s+(?i:(?:die|das|la|le|el|il|o|a|de|het)\s+)?(?i:bonne|richtige?|korrekt"
    r"|corre(?:ct[aeo]?|t[ao])|exacte?|giust[ao]|esatta|corrett[ao]|cert[ao]|juiste?|rätt|riktig|poprawna|правильн\w+|верн\w+)"
    r"(?i:\s+(?:antwort|option|réponse|respuesta|opción|risposta|resposta|opção|antwoord|svar|ответ|вариант))?"
    r"(?=\W*$|,?\s+(?i:weil|da|denn|car|parce\s+que|puisque|porque|ya\s+que|pois|perché|poiché|omdat|want|потому|так\s+как)\b)"
    r"|(?:选项|選項|答案)?\s*(?P<bare>[A-Z])\s*(?:选项|選項)?\s*(?:是|为)?正[确確](?:的|答案|选项)*\W*$"
)
"""The same in other languages, at the end of a sentence: "Option B ist richtig"."""
_WHOLE_ELSEWHERE = (
    re.compile(r"\W*(?P<letter>[A-Z])\s*번?\s*(?:이|가|은|는)?\s*정답(?:입니다|이다|임)?\W*"),
    re.compile(r"\W*(?:सही|उचित)\s+(?:उत्तर|विकल्प|जवाब)\s+(?:विकल्प\s+)?\(?(?P<letter>[A-Z])\)?\s+(?:है|हैं)\W*"),
    re.compile(r"\W*doğru\s+(?:cevap|yanıt|seçenek)\s+(?P<letter>[A-Z])['’]?\s?d[iıuü]r\W*", re.IGNORECASE),
)
"""Sentences of other languages whose verb is their end."""
_DENIED_ELSEWHERE = re.compile(
    r"(?<!\w)(?:nicht|kein\w*|wenn|falls|oder|ob|pas|si|ou|no|o|se|não|non|niet|of|als|не|если|или)(?!\w)|[不非若或]|如果",
    re.IGNORECASE,
)
_AFTER_TEXT = re.compile(
    rf"(?:{_SO}\b\s*,?\s*)?(?:the\s+)?(?P<name>[^,;:]{{1,200}}?)\s+(?:is|must\s+be){_SURELY}\s+"
    rf"(?:the\s+(?:{_BEST}\s+){{0,2}}(?:answer|option|choice|one)|correct|right)\W*",
    re.IGNORECASE,
)
"""All of an option's text before words that choose it: "Argon is the answer."."""
_ONLY = re.compile(
    r"\b(?i:only\s+(?:option|choice|answer)?)\s*\(?(?P<letter>[A-Z])\)?\s+(?i:fits|works|matches|qualifies|applies|remains|holds"
    r"|makes\s+sense|is\s+(?:correct|right|consistent|possible|left|valid|supported|compatible))(?=\W*$|[.,;]|\s(?:because|since|as|here|all|both|the|with|by)\b)"
    r"|\b(?i:(?:every|all|each|any|both)\b(?:\s+[a-z]+){0,3}\s+(?:but|except(?:\s+for)?|other\s+than|besides)\s+(?:option\s+|choice\s+)?)"
    r"\(?(?P<left>[A-Z])\)?\s+(?i:fails?|(?:is|are|can\s+be)\s+(?:\w+\s+)?(?:wrong|incorrect|false|ruled\s+out|eliminated|excluded))"
    r"|\b(?i:(?:none|no|nothing|neither)\b(?:\s+[a-z]+){0,3}\s+(?:but|except(?:\s+for)?|other\s+than|besides)\s+(?:option\s+|choice\s+)?)"
    r"\(?(?P<best>[A-Z])\)?\s+(?i:works?|fits?|holds?|matches|(?:is|are)\s+(?:right|correct|true|possible|valid))"
)
"""The name of an option before words that leave no other: "Only choice C fits"."""
_SUPPOSED = re.compile(
    r"\b(?:if|unless|suppose|assum\w+|were|would\s+(?:be|have)|might|may|could|maybe|perhaps|possibly|probably|unsure"
    r"|whether|some|many|most\s+(?:people|students)|students?|people|someone|others?|wrongly|mistakenly"
    r"|guess|going\s+to|consider|unlike|(?<=,\s)where)\b[^.;!?]*$",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:not|either|\w+n['’]t|cannot|never|between|neither|wrong|incorrect|false|to|\d(?:nd|rd|th)|second(?!\s+thoughts?)|third|another"
    r"|although|though|whereas|least|worst|common|tempted|tempting|earlier|previous|prior|original|old|initial|textbook|book|key|first|initially|originally|previously)\b[^,.;!?]*$",
    re.IGNORECASE,
)
"""Words before a cue that make its statement a guess, a condition or another's; that deny it."""
_CLAUSE = re.compile(
    r"[;:.!?]\s|,\s*(?:so|but|thus|hence|therefore|which|leaving|and)\b|\b(?:but|so|thus|hence|therefore)\b",
    re.IGNORECASE,
)
_SEVERAL = re.compile(
    r"\W*(?:(?:either|both|option|choice)\s+)*\(?(?P<one>[A-Z])\)?\s*(?:,|/|\bor\b|\band\b|&)\s*(?:or\s+|and\s+)?"
    r"(?:(?:option|choice)\s+)?\(?(?P<other>[A-Z])\)?(?=\s*(?:$|[.,;!)]))"
)
_JOINED_BEFORE = re.compile(
    r"(?<![\w'’])[A-Z]\)?\s*(?:,|,?\s*\b(?:and|or|nor))\s+(?:(?:option|choice)\s+)?\(?$"
)
_LONGEST_SENTENCE = 1_000
_MOST_SENTENCES = 200
"""The number of last sentences that are read."""


def find_conclusion(text: str, options: Options) -> Conclusion | None:
    """Return the last choice that a sentence of `text` states, takes back or leaves open; None when there is none."""
    for sentence in reversed(_split(text, options)[-_MOST_SENTENCES:]):
        if len(sentence) > _LONGEST_SENTENCE or sentence.rstrip(" )\"'*_").endswith(("?", "？")):
            continue
        found = [*_find_before(sentence, options), *_find_after(sentence, options)]
        if found:
            return max(found, key=lambda one: one.place).conclusion
        if find_retraction(sentence) is not None:
            return Conclusion(None)
    return None


_LABEL_END = re.compile(r"(?<![\w'’])([A-Z])\.\Z")
_LINE_MARKS = re.compile(r"\*\*|__|`|\A\s*(?:[-*+•]|#{1,6})\s+")


def _split(text: str, options: Options) -> list[str]:
    """Return the sentences of a text without emphasis. The full stop of a label ("B. Argon") ends none."""
    sentences: list[str] = []
    for sentence in split_sentences("\n".join(_LINE_MARKS.sub("", line) for line in text.splitlines())):
        label = _LABEL_END.search(sentences[-1]) if sentences else None
        own = options.get(label[1], "")[:_LONGEST_SENTENCE].lower() if label else ""
        if own and sentence.lower().startswith(own):
            sentences[-1] += f" {sentence}"
        else:
            sentences.append(sentence)
    return sentences


def _find_before(sentence: str, options: Options) -> Iterator[_Found]:
    for cue, may_explain in _BEFORE:
        for match in cue.finditer(sentence):
            statement = sentence[match.end() :]
            is_aside = find_aside(sentence[: match.end()]) is not None
            if is_aside or _is_open(sentence[: match.start()]) or _REPORTED.match(statement):
                continue
            if _ALSO.search(sentence[: match.start()]):
                yield _Found(match.end(), Conclusion(None))
                continue
            letter = _read_name(statement, options, may_explain=may_explain)
            if letter or _names_several(statement, options):
                yield _Found(match.end(), Conclusion(letter))
    for mark in FOREIGN_ANSWER_WORDS:
        line = mark.match(sentence)
        letter = _read_name(line["answer"], options, may_explain=True) if line else None
        if line and letter:
            is_kept = not is_crossed_out(line["answer"])
            yield _Found(line.start("answer"), Conclusion(letter if is_kept else None))


_REPORTED = re.compile(
    r"(?:(?:often|commonly|widely|usually|generally|sometimes|frequently)\s+)?(?:believed|thought|said|assumed|considered"
    r"|claimed|taken|mistaken)\b|(?:untrue|false|wrong|incorrect|not\s+true)\s+(?:to\s+say\s+)?that\b",
    re.IGNORECASE,
)
"""Words that begin what others say, or what is denied."""
_ALSO = re.compile(r"\balso\s+\Z", re.IGNORECASE)
"""Words before a second choice: "I choose B; I also choose C"."""


def _find_after(sentence: str, options: Options) -> Iterator[_Found]:
    for match in _AFTER.finditer(sentence):
        letter, before, rest = match["letter"], sentence[: match.start("letter")], sentence[match.end() :]
        if letter not in options or _is_open(before):
            continue
        is_alone = not rest.strip(" .!*_)") or is_only_choice(letter, rest, options, ".")
        is_one = is_alone and _JOINED_BEFORE.search(before) is None
        yield _Found(match.end(), Conclusion(letter if is_one else None))
    fits = _FITS.search(sentence)
    if fits is not None and fits["letter"] in options and not _is_open(sentence[: fits.start("letter")]):
        is_alone = is_only_choice(fits["letter"], sentence[fits.end() :], options, ".")
        yield _Found(fits.end(), Conclusion(fits["letter"] if is_alone else None))
    elsewhere = _AFTER_ELSEWHERE.search(sentence)
    if elsewhere is not None and (elsewhere["letter"] or elsewhere["bare"]) in options:
        letter, before = elsewhere["letter"] or elsewhere["bare"], sentence[: elsewhere.start()]
        if _DENIED_ELSEWHERE.search(before) is None and not _is_open(before):
            yield _Found(elsewhere.end(), Conclusion(letter))
    for whole in _WHOLE_ELSEWHERE:
        said = whole.fullmatch(sentence)
        if said is not None and said["letter"].upper() in options:
            yield _Found(said.end(), Conclusion(said["letter"].upper()))
    only = _ONLY.search(sentence)
    letter = next(filter(None, only.groups()), "") if only else ""
    if only is not None and letter in options and not _is_open(sentence[: only.start()]):
        yield _Found(only.end(), Conclusion(letter))
    stated = _AFTER_TEXT.fullmatch(sentence)
    named = find_same(stated["name"], options) if stated else None
    if stated and named:
        yield _Found(stated.end("name"), Conclusion(named))


def is_supposed(lead: str) -> bool:
    """Return whether the words before a cue make its statement a guess, a condition or another's."""
    return _SUPPOSED.search(_CLAUSE.split(lead)[-1]) is not None


def _is_open(lead: str) -> bool:
    return is_supposed(lead) or _DENIED.search(_CLAUSE.split(lead)[-1]) is not None


_AFTER_ALL = re.compile(
    r"\s*,?\s+(?:after\s+all|instead|then|in\s+the\s+end|for\s+sure|here)\W*\Z", re.IGNORECASE
)


def _read_name(statement: str, options: Options, *, may_explain: bool) -> str | None:
    statement = _AFTER_ALL.sub("", statement.strip().rstrip("。"))
    label = _LABEL.match(statement)
    may_explain = may_explain or (label is not None and has_phrase(statement, options.get(label[1], "")))
    name = statement if may_explain else _REASON.split(statement, maxsplit=1)[0]
    letter = _read_whole(name, options, may_explain=may_explain)
    if label is not None and label[1] in options and letter != label[1]:
        return None
    is_all = may_explain or name == statement
    return letter if is_all or _read_whole(statement, options, may_explain=True) == letter else None


_LABEL = re.compile(r"\W*([A-Z])\s*[):]")
_REASON = re.compile(r",\s|;\s|\s[-–—]\s|\s+\(?(?:because|since|due|given)\b")


def _read_whole(statement: str, options: Options, *, may_explain: bool) -> str | None:
    return find_by_text(statement, options, may_explain=may_explain) or find_lettered(
        statement, options, may_explain=may_explain
    )


def _names_several(statement: str, options: Options) -> bool:
    found = _SEVERAL.match(statement)
    return found is not None and found["one"] in options and found["other"] in options
