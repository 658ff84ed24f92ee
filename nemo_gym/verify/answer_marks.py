"""The marks of an answer line: "#### X", "A: X", "Answer: X", "The answer is X", "La réponse est X", "答案是 X".

Each pattern matches a line without emphasis, from its start, and has the group `answer`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["ANSWER_WORDS", "FOREIGN_ANSWER_WORDS", "WEAK_ANSWER_MARKS", "find_aside"]

_VERDICT = r"(?:correct|right|wrong|incorrect|clear|obvious|unique|below|above|as follows)\b"
"""Words that say something about an answer, after "the answer is"."""
_MEANWHILE = r"(?:\s*,?\s*(?:then|therefore|thus|hence|of\s+course|clearly)\s*,?)?"
_THEREFORE = r"(?:\s*,?\s*(?:therefore|thus|hence|then|indeed|simply|just)\b\s*,?)?+"
ANSWER_WORDS = re.compile(
    rf"(?i:.*\banswer[*_]*{_MEANWHILE}\s*(?:is(?![\w'’]){_THEREFORE}(?!\s*{_VERDICT})\s*[:：]?|[:：=]))[*_]*\s*(?P<answer>.*)"
)
"""Matches a line like "Answer: X" or "... the answer is X"."""

_WORDS_OF_LANGUAGES = (
    # nouns, words between the noun and the verb, verbs
    (r"réponse", r"(?:\s+(?:finale|correcte|exacte))?", r"est"),
    (r"antwort", r"", r"(?:ist|lautet)"),
    (r"respuesta", r"(?:\s+(?:final|correcta))?", r"es"),
    (r"opci[oó]n", r"\s+correcta", r"es"),
    (r"opção", r"\s+(?:correta|certa)", r"é"),
    (r"opzione", r"\s+(?:corretta|giusta|esatta)", r"è"),
    (r"(?:bonne\s+)?option", r"(?:\s+(?:correcte|exacte))", r"est"),
    (r"risposta", r"(?:\s+(?:finale|corretta|esatta|giusta))?", r"(?:è|e['’])"),
    (r"resposta", r"(?:\s+(?:final|correta|certa))?", r"(?:é|e)"),
    (r"antwoord", r"", r"is"),
    (r"svar(?:et)?", r"", r"(?:är|er)"),
    (r"odpowiedź", r"", r"(?:to|jest)"),
    (r"alternativa", r"\s+(?:correta|correcta|certa)", r"(?:é|es)"),
    (r"richtige\s+option", r"", r"ist"),
    (r"cevap", r"", r"olarak"),
    (r"jawaban(?:nya)?", r"(?:\s+yang\s+benar)?", r"adalah"),
    (r"đáp\s+(?:án|số)", r"(?:\s+đúng)?", r"là"),
    (r"(?:الجواب|الإجابة)", r"(?:\s+(?:الصحيحة|الصحيح|النهائي|النهائية))?", r"(?:هو|هي)"),
    (r"उत्तर", r"", r"है"),
    (r"(?:правильный\s+)?ответ", r"", r"[-–—]"),
)
_WORDS_WITHOUT_SPACES = (
    r"(?:答案|答え|正解|回答|答|정답|답)(?:\s*(?:应该?|應該?))?\s*(?:[:：=]|是|为|為|は|[은는이])"
)
_SO_ELSEWHERE = (
    r"(?:\s+(?:donc|ainsi|alors|also|somit|daher|folglich|por\s+(?:lo\s+)?tanto|entonces|pues|portanto|assim|quindi|dunque"
    r"|pertanto|dus|alltså|således|więc|zatem))?"
)
FOREIGN_ANSWER_WORDS = (
    *(
        re.compile(
            rf"(?i:.*\b{noun}{between}\s*(?:{verb}(?!\w){_SO_ELSEWHERE}\s*[:：]?|[:：=])\s*+"
            r"(?:(?:la|le|el|il|o|a|die|de)\s+|l['’])?(?:(?:option|opción|opção|opzione|optie|letra|lettre|lettera|вариант)\s+)?"
            r"(?!(?:pas|nicht|no|non|não|niet|не|inte|ikke|nie)\b)(?P<answer>.*))"
        )
        for noun, between, verb in _WORDS_OF_LANGUAGES
    ),
    re.compile(
        rf".*{_WORDS_WITHOUT_SPACES}\s*(?!不|非|ない)(?P<answer>.+?)(?:です|である|입니다|이다)?[.。]?(?:(?<=。).*)?$"
    ),
)
"""Answer lines in other languages. One that denies its answer is none."""
ANSWER_MARKS = (
    re.compile(r"####(?=\D*\d)\s*(?P<answer>.*)"),
    re.compile(r"A:\s*(?P<answer>.*)"),
    ANSWER_WORDS,
    *FOREIGN_ANSWER_WORDS,
)
_RESULT_ELSEWHERE = (
    r"(?:lösung|ergebnis|resultat|résultat|solución|resultado|solução|soluzione|risultato|oplossing|wynik|sonuç|hasil"
    r"|kết\s+quả|результат|итого)"
)
WEAK_ANSWER_MARKS = (
    re.compile(
        r"(?i:(?:(?:so|thus|hence|therefore)\W+)?(?P<answer>[-−+$]*\d[\d.,/^%$]*)\s+(?:is\s+(?:the|my|our)\s+(?:(?:final|correct|right)\s+){0,2}"
        r"answer|it\s+is)\W*$)"
    ),
    re.compile(r"(?i:\W*(?:so\W+)?to\s+answer\s+(?:the|your|this)\s+question\s*[:,]\s*(?P<answer>\S.*))"),
    re.compile(rf"(?i:\W*(?:\w+\s+)?{_RESULT_ELSEWHERE}\s*[:=]\s*(?P<answer>\S.*))"),
    re.compile(r"(?:最终|最後の)?(?:结果|結果|결과)\s*(?:[:：=]|是|为|は)\s*(?P<answer>\S.*)"),
    re.compile(r"(?i:\W*(?:the\s+)?(?:(?:final|correct)\s+)?answer)\W*(?P<answer>)$"),
    re.compile(
        r"(?i:.*\banswer(?:\s+(?:to|of|for|in)\s[^.:：=]{1,80}?)?"
        r"(?:\s+(?:(?:would|should|must|will|has\s+to)\s+(?:(?:therefore|thus|then|clearly|also|definitely)\s+)?be|is(?!['’])|equals|comes\s+(?:out\s+)?to)\b\s*[:：]?"
        r"|['’]s\b|\s*(?:[:：→]|[-=]>|\s[-–—]\s)))\s*(?P<answer>.*)"
    ),
)
"""Lines that may also be a heading or a remark, for a text that states its answer in no other way."""
_EXCLAIMED = (
    r"(?:wait|hmm+|no|nope|oops|sorry|actually|hold\s+on|correction|instead|rather"
    r"|on\s+(?:second\s+thoughts?|reflection))"
)
CORRECTED_ANSWER = (
    re.compile(
        rf"(?i:.*?\b{_EXCLAIMED}\b[^.!?]{{0,40}}?(?:\b(?:it|that|this|which)(?:['’]s|\s+(?:(?:should|must|has\s+to)\s+(?:be|have\s+been)|is))"
        rf"|\bi\s+(?:meant|mean))\s*:?\s*(?P<answer>.*))"
    ),
    re.compile(
        r"(?i:(?:.*[.!?,]\s+)?(?:(?:correction|update|edit|revision|corrected|revised)\s*[:：]|make\s+(?:that|it))\s*(?P<answer>.*))"
    ),
    re.compile(
        r"(?i:(?:.*[.!?,;:…]\s+)?(?:(?:wait|hmm+|no|nope|oops|sorry|actually|hold\s+on|correction|rather|scratch\s+that"
        r"|on\s+(?:second\s+thoughts?|reflection))\b[\s,.:;!…–—-]*){1,4}(?:make\s+(?:that|it)\s+)?"
        r"(?P<answer>\**[-−+$]*(?:\d[\d.,/^%$*]*|\\?[\[({][^\n]{1,80})\s*))$"
    ),
    re.compile(
        r"(?i:(?:.*[.!?,:;]\s+)?(?:so\s+)?i(?:['’]ll|['’]d|\s+(?:will|would|now))?\s+(?:go\s+with|say|submit|settle\s+on|choose|get)"
        r"\s+(?P<answer>\**[-−+$]*\d[\d.,/^%$*]*))[.!]*$"
    ),
    re.compile(
        r"(?i:(?:.*[.!?:]\s+)?(?:it|that|this)\s+should\s+(?:instead\s+)?(?:be|have\s+been)\s+(?P<answer>.*))"
    ),
)
"""Lines that state an answer in place of one before: "Wait, it should be X"."""


_OTHERS = (
    r"(?:many|most|some|few|people|students?|others|one|someone|somebody|anyone|everyone|they|he|she|textbooks?|authors?"
    r"|books?|keys?|readers?|beginners?|calculators?|friends?|colleagues?|teachers?|sources?|manuals?|models?|brother|sister"
    r"|mother|father|mom|dad|wife|husband|son|daughter|uncle|aunt|boss|tutor|neighbou?r|classmates?|forums?|websites?|internet"
    r"|nobody|no\s+one|wikipedia|google|chatgpt|reddit|quora)"
)
_SAYING = (
    r"(?:say|says|said|think|thinks|thought|claim|claims|claimed|believe|believes|believed|argue|argues|assume|assumes"
    r"|guess|guesses|conclude|concludes|insist|insists|gives?|lists?|might|may|could|would)"
)
_ASIDE = re.compile(
    r"(?:\b(?:wrong|incorrect|false|mistaken|erroneous|bad|common|usual|typical|frequent|tempting|popular|naive|naïve"
    r"|intuitive|least|worst|earlier|previous|prior|former|old|original|initial|first|textbook|book|key"
    r"|their|his|her|(?!(?:it|that|this|here|there|let|what|question|problem|task)['’])[a-z]+['’]s|students?['’])"
    r"\s+(?:[a-z]+\s+){0,2}answers?\b"
    r"|\bmy\s+(?!(?:calculation|computation|answer|result|reasoning|analysis|work|derivation|solution)s?\b)(?:[a-z]+\s+){1,3}?"
    rf"{_SAYING}\b[^.!?;]*\banswer\b"
    rf"|\b{_OTHERS}\b[^.!?;]{{0,60}}?\b{_SAYING}\b[^.!?;]*\banswer\b"
    rf"|\baccording\s+to\s+(?:the\s+|my\s+|a\s+|an\s+)?{_OTHERS}\b[^.!?;]*\banswer\b"
    r"|\b(?:previous|preceding|earlier|other|last|next)\s+(?:problem|question|part|exercise|task)['’]s\s+answer\b"
    r"|\b(?:untrue|false|wrong|incorrect|not\s+true)\s+(?:to\s+say\s+)?that\b[^.!?;]*\banswer\b"
    r"|\b(?:for|in|of|to)\s+the\s+(?:previous|preceding|last|earlier|other|next)\s+(?:question|exercise|problem|task|one)\b"
    r"[^.!?;]*\banswer\b|\bif\s+the\s+(?:question|problem|task|exercise)\s+(?:is|was|were|had|asked|asks)\b[^.!?;]*\banswer\b"
    r")[^.!?;]*\Z",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[.!?;:。！？]\s*|(?:,\s*|\s)\(?(?=(?:(?:even\s+)?though|although|but|while|whereas|however|yet|and|so|thus|hence"
    r"|therefore)\b)|,\s*(?=(?:my|our|the\s+(?:final|correct|right|best|true|real|actual))\b)|\s[(–—-]+\s?"
)


def find_aside(lead: str) -> int | None:
    """Return where the clause begins that makes a mark speak of another answer; None when it speaks of the plain one.

    `lead` is a line up to its answer: "The wrong answer is", "Many say the answer is", "My earlier answer was".
    """
    start = _find_clause(lead)
    return start if _ASIDE.search(_MARK_END.sub("", lead[start:])) else None


def _find_clause(lead: str) -> int:
    """Return where the clause begins in which a mark stands."""
    skipped = max(0, len(lead) - _LONGEST_LEAD)
    said = _MARK_END.sub("", lead[skipped:])
    start = max((clause.end() for clause in _CLAUSE.finditer(said)), default=0)
    contrast = _CONTRAST.match(said, start)
    return skipped + (contrast.end() if contrast else start)


_MARK_END = re.compile(r"\s*(?:[:：=]|\b(?:is|was)\b)?\W*\Z")
_LONGEST_LEAD = 300
_CONTRAST = re.compile(
    r"\W*(?:although|though|even\s+though|while|whereas|unlike|despite)\b[^,]*,\s*", re.IGNORECASE
)
"""A clause before the one that states the answer: "Although many say C, the answer is B"."""
_OTHER_CASE = re.compile(
    r"(?:\A|[.!?:;。]\s|\bbut\s|\()\W*(?:(?:note|notice|remark|remember|recall|nb|observe|aside)\b|(?:(?:note|remark|also|and"
    r"|similarly|likewise)\b\W*(?:that\s+)?)?(?:if|unless|had|were|suppose|when|whenever|in\s+(?:case|the\s+(?:case|original|previous"
    r"|other|textbook|book|first|older|general|similar|related|analogous)|(?-i:[A-Z])\w+)|for\s+(?:(?-i:[a-zA-Z])\s*[=<>≤≥]|\$|example|instance"
    r"|comparison|other|another|the\s+(?:case|previous|original|other|first|next|general)|(?:odd|even|larger|smaller)\b"
    r"|(?-i:[A-Z])\w+)|without\b|similarly\b|(?:in|more)\s+general(?:ly)?\b|generally\b))",
    re.IGNORECASE,
)


_SUPPOSED_ANSWER = re.compile(
    r"\b(?:suppos(?:e|ing)|assum(?:e|ing)|pretend|imagine|if|whether|let['’]s\s+say|told(?:\s+me)?|heard)\s+(?:that\s+)?"
    r"(?:(?:the|my|our|this|an)\s+)?(?:\w+\s+)?answer\s+(?:is|was|were)\W*\Z",
    re.IGNORECASE,
)


def is_supposed_answer(lead: str) -> bool:
    """Return whether the words up to an answer only suppose or report it: "Suppose the answer is", "I was told ..."."""
    return _SUPPOSED_ANSWER.search(lead[-_LONGEST_LEAD:]) is not None


def is_other_case(lead: str) -> bool:
    """Return whether a line speaks of the answer of another case: "Note: for n=4 the answer is", "If x were 2, ..."."""
    sentence = re.split(r"(?<=[.!?。])\s+", lead[-_LONGEST_LEAD:])[-1]
    return _OTHER_CASE.search(sentence) is not None


_MOST_ASIDES = 10
_DENIED_NUMBER = re.compile(r"not\s+[-+$\\(]*\d[^\s,;]*\s*(?:[.!;]|\Z)", re.IGNORECASE)
"""A number that a line denies: "The answer is not 7"."""


def match_mark(line: str, marks: Sequence[re.Pattern[str]]) -> re.Match[str] | None:
    """Return the first of `marks` in a line, without clauses at its end that speak of another answer or deny one."""
    for _ in range(_MOST_ASIDES):
        found = next((match for mark in marks if (match := mark.match(line))), None)
        lead = found.string[: found.start("answer")] if found else ""
        is_denied = found is not None and _DENIED_NUMBER.match(found["answer"]) is not None
        aside = _find_clause(lead) if is_denied else find_aside(lead)
        if found is None or aside is None:
            return found
        line = line[:aside].rstrip(" ,(–—-")
    return None
