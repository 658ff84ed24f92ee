r"""The value that the last sentence of a text states without any mark: "So 73 rolls are left.", "The area is **15**."

A sentence states a value if it is the only one in its conclusion: what stands in bold or in dollars, what "is",
"equals" or "=" leads to at its end, or its only number, where a verb leads to it ("has 12 pens") or it counts what is
left ("73 rolls are left"). A question, a guess, a bound, a condition and a plan state nothing, nor does a number that
the words beside it change or name: "minus 5", "5 million", "5!", "half of 5", "page 5".
"""

from __future__ import annotations

import re
from collections.abc import Callable

from nemo_gym.verify.answer_marks import find_aside
from nemo_gym.verify.number_words import read_number_words
from nemo_gym.verify.sentences import split_sentences

__all__ = ["find_conclusion"]

_SEARCHED = 2_000
"""The end of a text in which its last sentence is looked for."""
_LONGEST_SENTENCE = 400
_OPEN = re.compile(
    r"[?？]|\b(?:not|no|never|neither|nor|cannot|\w+n['’]t|wrong|incorrect|false|mistake|tempting|unlikely|or|either|maybe|perhaps"
    r"|possibly|probably|might|may|could|would|should|if|unless|suppose|assume|assuming|let|let['’]s|say|given|told|guess"
    r"|unsure|sure|unknown|between(?=[^.]*\d[^.]*\band\b)|about|around|approximately|roughly|nearly|almost|at\s+(?:least|most)"
    r"|(?:more|less|greater|fewer|smaller|larger|higher|lower)\s+than|up\s+to|above|below|under|over"
    r"|(?:we|i|you|one|us|let['’]s)\s+(?:\w+\s+)?(?:need|must|will|want|have\s+to)|(?<!at\s)(?:next|first)|step|try|check|consider|recall|note|remember|start|begin|depends?|estimate[ds]?|question|problem"
    r"|case|example|options?|used\s+to|know|think|believe|hope|decide|(?<!est\s)(?<!imum\s)(?<!only\s)(?<!imal\s)possible|some|others?"
    r"|nicht|kein\w*|sondern|oder|pas|ne|ou|não|niet|geen|of\s+niet|non|не|или|inte|ikke|nie|vielleicht|peut-être)(?!\w)|n['’]est"
    r"|≈|~|\\approx|\\(?:boxed|fbox)|\.\.\.|…|[\d)]\s?!",
    re.IGNORECASE,
)
_CHANGED = re.compile(
    r"\b(?:twice|thrice|(?:doubles?|triples?|half|third|quarter|fourth|fifth)\s+(?:of|as|past|the|that|its?|an?)"
    r"|a\s+(?:half|third|quarter)|squared|cubed|factorial|(?:square|cube)\s+root|root\s+of|(?<!common\s)(?:reciprocal|opposite|inverse"
    r"|square|cube|multiple|factor|divisor|power|logarithm)s?\s+(?:of|to)|modulo|mod|divisible|divides?|prime\s+to"
    r"|congruent|exceeds?|differs?|hardly|everything|anything|except|excluded?|excludes|exclud\w+|reject\w*|refuse\w*"
    r"|rul(?:e[sd]?|ing)\s+out|eliminat\w+|discard\w*|impossible|fail(?:s|ed)?|born|skip\w*|far\s+from|but|without|unlike"
    r"|contradict\w*|opposed)\b",
    re.IGNORECASE,
)
"""Words that make another quantity of the number of their clause, or that deny it."""
_BEFORE_NUMBER = re.compile(
    r"(?:\b(?:minus|negative|plus|root|half|times|by|from|page|pages|theorem|lemma|equation|line|step|section|chapter"
    r"|figure|table|number|version|model|base|per|at|in|since|until|with|log|sin|cos|tan|ln)|[-+*/√^×·÷−–])[\s$*_(\\]*\Z",
    re.IGNORECASE,
)
_AFTER_NUMBER = re.compile(
    r"[\s$*_)\\]*(?:(?:and|minus|plus|times|squared|cubed|factorial|root|pi|of|to|by|in|out|over|per|more|less|fewer|hundreds?"
    r"|thousands?|millions?|billions?|trillions?|dozens?|scores?|pairs?|halves|thirds|quarters|tenths|feet|foot|lakhs?|crores?"
    r"|[kmb]|half|is|as)\b(?!\s+(?:total|all)\b)|[π√+*/^×·÷²³!−])",
    re.IGNORECASE,
)
"""Words and signs directly beside a number that change it, or make it the number of something."""
_AT, _CLOCK = re.compile(r"\bat[\s$*_(]*\Z", re.IGNORECASE), re.compile(r"[\s$*_(]*\d{1,2}:\d\d")
"""A time stands behind "at" as it is: "They meet at 5:40"."""
_SUM = re.compile(r"(?<![\w.])[$€£]?\d[\d.,]*(?:\s*[-+*/×·÷−–]\s*[$€£]?\d[\d.,]*)+\s*=\s*")
"""The calculation before a number: "She pays 5 + 7 = 12 dollars"."""
_CONCLUDES = re.compile(
    r"\b(?:so|thus|therefore|hence|consequently|accordingly|overall|altogether)\b[\s,:]*", re.IGNORECASE
)
_BOLD = re.compile(r"\*\*(?P<bold>[^*\n]+)\*\*|__(?P<lined>[^_\n]+)__")
_FORMULA = re.compile(r"\$\$?(?P<dollars>[^$\n]+)\$\$?|\\\((?P<round>.+?)\\\)|\\\[(?P<square>.+?)\\\]")
_NUMBER = r"[-−]?[$€£¥]?(?:\d+(?:,\d+)*(?:\.\d+)?|\.\d+)(?:\s?/\s?\d+|[½⅓⅔¼¾])?%?"
_ANY_NUMBER = re.compile(r"\d[\d.,]*[½⅓⅔¼¾]?|[½⅓⅔¼¾]")
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
_LEADS = (
    r"(?:(?:is|are|was|were|be|s|equals?|needs?|needed|gained|lost|lose|loses|found|finds?|scored?|scores|grew|grows|drank|drinks|wins?|won|uses?|used"
    r"|adds?|reads?|wrote|writes|runs?|ran|bak(?:es|ed)|cooks?|cooked|picks?|picked|plants?|planted|have|will\s+have|get|keeps?|kept|gave|has|have|had|gets?|got|gives?|makes?|made|becomes?|totals?|costs?|takes|took|leaves?"
    r"|left|remain|lasts?|earn(?:s|ed)?|pays?|paid|spen[dt]s?|saves?d?|sells|sold|buys|bought|collect(?:s|ed)|received?s?"
    r"|weighs?|measures?|contains?|holds?|eats|ate|owes?|travel(?:s|ed)|walk(?:s|ed)|drove|drives|produces?d?|for|after"
    r"|braucht|brauchen|bekommt|bleiben|verdient|zahlt|spart|reste|restent|paie|gagne|quedan|queda|gana|paga|ha|restano|paga"
    r"|ist|sind|beträgt|ergibt|kostet|hat|est|sont|vaut|fait|coûte|donne|es|son|vale|cuesta|tiene|da|é|são|tem|custa|è|sono"
    r"|ha|costa|zijn|kost|är|равн[аоы]?|равен|составляет|стоит)"
    r"(?:\s+(?:only|exactly|just|now|still|then|thus|therefore|precisely|simply|also|equal\s+to|a\s+total\s+of|genau|somit"
    r"|daher|donc|exactement|égale?\s+à|exactamente|igual\s+a|portanto|dunque|uguale\s+a|dus)){0,2})"
)
_TAIL = (
    r"(?:\s+(?!(?:and|but|to|by|page|pages|plus|minus|times|squared|cubed|except|which|that|who|while|half|one|two|three|four"
    r"|five|six|seven|eight|nine|ten|eleven|twelve|base|root|percentage)\b)[^\W\d_][^\s\d,;:()$\\!]*|\s?°[CFK]?){0,8}"
)
_BETWEEN = r"(?:\s+(?!(?:a|an|the|of|per|by|at|from|about)\b)[a-zA-Z]+){0,2}"
"""Whom or what a verb is about, before the number: "takes him 12 minutes"."""
_COUNTED = re.compile(
    rf"(?:.*[\s'’])?{_LEADS}{_BETWEEN}\s+(?P<value>{_NUMBER})(?P<tail>{_TAIL})[\s.!\"”)]*", re.IGNORECASE
)
"""A verb and its number, perhaps with what it counts: "has 12 pens in total"."""
_COUNTED_IN_SCRIPTS = re.compile(
    r"(?:所以|因此|故|综上|于是|したがって|よって|だから|따라서|그러므로|그래서)[^\d不没沒非ない아]{0,30}?(?P<value>\d[\d.,]*)"
    r"(?![万萬千百亿億兆만억천백])[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{0,12}[。.]?"
)
"""A sentence that concludes with one number: "所以一共有12个苹果。"."""
_LEFT = re.compile(
    rf"\W*(?:there\s+)?(?P<value>{_NUMBER})(?P<tail>(?:\s+[^\W\d_]+){{1,3}})\s+(?:(?:are|is|were|was|remain|remains)\s+)?"
    r"(?:left(?:\s+over)?|remain|remains|remaining|in\s+(?:total|all)|altogether)[\s.!\"”)]*",
    re.IGNORECASE,
)
"""A number and what it counts, of which that many are left: "73 rolls are left"."""
_WRITER = re.compile(r"\b(?:I|my|mine|me)\b(?!\s+(?:get|got)\b)")
_PERCENT = re.compile(r"\s+percent\b(?!\s*(?:of|more|less)\b)", re.IGNORECASE)
_LABELLED = re.compile(
    r"\*\*[^\W\d_][^\d:*$]{1,40}:(?:\*\*)?\s*(?P<value>[^\s*][^*:]{0,60}?)(?:\*\*)?[\s.!]*"
)
"""A line in bold that names its value, or whose label is in bold: "**Total cost: $12**"."""
_TOTAL = re.compile(
    r"(?:(?:(?:total|final|overall|net|combined|remaining)\s+){1,2}[a-z]+(?:\s+[a-z]+)?|profit|cost|price|sum|total|area|volume|perimeter|distance"
    r"|speed|revenue|savings|probability|change)\s*[:=]\s*(?P<value>[^\s*][^*:]{0,40}?)[\s.!]*",
    re.IGNORECASE,
)
"""A line that names a total: "Overall profit: $12"."""
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
    clause = _REASON.sub(_close, _CONCLUDES.split(sentence)[-1])
    if (
        _OPEN.search(clause)
        or (clause == sentence and _NEED.search(clause))
        or clause.startswith(("#", "|", ">"))
    ):
        return None
    finders: list[Callable[[str], str | None]] = [_find_result]
    if _is_ended(sentence):
        finders += [_find_marked, _find_stated, _find_lone_number]
        finders += [_find_bold_end] if clause != sentence else []
    for find in finders:
        value = find(clause)
        if value:
            return None if find_aside(sentence.partition(value)[0]) is not None else value
    return None


_NEED = re.compile(r"\bneed(?:s|ed)?\b", re.IGNORECASE)
"""Who needs a number is told what is given, unless the sentence concludes: "So she needs 12 eggs"."""
_REASON = re.compile(r"(?<=[\d)$%*}]),?\s+(?:because|since|as)\s+[^\W\d_].*?(?P<end>[.!]?)\Z", re.IGNORECASE)


def _close(reason: re.Match[str]) -> str:
    return reason["end"]


def _is_ended(sentence: str) -> bool:
    """Return whether a sentence is whole: a text that was cut off concludes nothing."""
    return sentence.endswith((".", "!", "。", "*", "_", "$", ")", "]", '"', "”"))


def _find_result(clause: str) -> str | None:
    """Return the value of a line that is only a result. A number without "=" or a name before it states nothing."""
    labelled = _LABELLED.fullmatch(clause) or _TOTAL.fullmatch(clause)
    if labelled is not None and is_value(labelled["value"]):
        return labelled["value"]
    plain = clause.replace("**", "").strip("$ ")
    found = _RESULT.fullmatch(plain)
    value = found["value"].rstrip(" .!$") if found else ""
    is_marked = "=" in value or value != plain.strip(" .!$")
    return value if value and is_marked and not _WORD.search(value) else None


def _find_bold_end(clause: str) -> str | None:
    found = _BOLD_END.search(clause)
    is_alone = (
        found is not None and clause.count("**") == 2 and not _is_changed(clause, found.start(), found.end())
    )
    return found["bold"].strip(" .") if found and is_alone else None


def _find_marked(clause: str) -> str | None:
    """Return the only value in bold, else the only formula in dollars, beside which no number stands."""
    for marks in (_BOLD, _FORMULA):
        found = list(marks.finditer(clause))
        if len(found) != 1 or _is_changed(clause, found[0].start(), found[0].end()):
            continue
        beside = clause[: found[0].start()] + clause[found[0].end() :]
        value = next(str(group) for group in found[0].groups() if group).strip(" .:")
        if not _ANY_NUMBER.search(beside) and "$" not in beside and is_value(value):
            return value
    return None


def _is_changed(clause: str, start: int, end: int) -> bool:
    """Return whether the words beside `clause[start:end]` change its value or deny it: "minus 5", "5 million"."""
    before, after = clause[:start], clause[end:]
    return (
        _CHANGED.search(before) is not None
        or _CHANGED.search(after) is not None
        or (
            _BEFORE_NUMBER.search(before) is not None
            and not (_AT.search(before) and _CLOCK.match(clause, start))
        )
        or _AFTER_NUMBER.match(after) is not None
    )


def _find_stated(clause: str) -> str | None:
    plain = _BOLD.sub(lambda bold: bold["bold"] or bold["lined"], clause).strip(" .!。")
    stated = _STATES.fullmatch(plain)
    if (
        stated is None
        or _is_changed(plain, stated.start("value"), stated.end("value"))
        or "$" in plain[: stated.start("value")]
        or _has_other_number(plain[: stated.start("value")], stated["value"])
    ):
        return None
    is_named = (
        stated["value"].lower().startswith("infinitely")
        or read_number_words(stated["value"].lower()) is not None
    )
    return (
        stated["value"]
        if is_named or (is_value(stated["value"]) and not _WORD.search(stated["value"]))
        else None
    )


def _has_other_number(lead: str, value: str) -> bool:
    """Return whether a number stands before the value, and not as a part of its subject: "the sum of 3 and 9 is"."""
    is_plain = re.fullmatch(_NUMBER, value.strip()) is not None
    return _ANY_NUMBER.search(_OF_NUMBERS.sub("", lead) if is_plain else lead) is not None


_OF_NUMBERS = re.compile(
    r"\b(?:of|between|from|by)\s+\d[\d.,]*(?:\s*(?:,|and|to|by|,\s*and)\s+\d[\d.,]*){0,3}(?=\s)"
    r"|\b(?:at|when|for|where)\s+\$?[a-zA-Z]\s*=\s*[-−]?\d[\d.]*\$?",
    re.IGNORECASE,
)


def _find_lone_number(clause: str) -> str | None:
    counted = _COUNTED_IN_SCRIPTS.fullmatch(clause)
    if counted is not None:
        return counted["value"]
    plain = _SUM.sub("", _PERCENT.sub("%", clause.replace("*", "")))
    found = _COUNTED.fullmatch(plain) or _LEFT.fullmatch(plain)
    if found is None or len(_ANY_NUMBER.findall(plain)) != 1 or _WRITER.search(plain[: found.start("value")]):
        return None
    return None if _is_changed(plain, found.start("value"), found.end("value")) else found["value"]


def is_value(text: str) -> bool:
    """Return whether a text looks like a number or a formula, also with a unit, and not like words."""
    return _VALUE.fullmatch(text) is not None or re.fullmatch(r"[a-zA-Z]{1,3}\s*=.+", text) is not None
