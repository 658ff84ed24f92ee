"""The marks of an answer line: "#### X", "A: X", "Answer: X", "The answer is X", "La réponse est X", "答案是 X".

Each pattern matches a line without emphasis, from its start, and has the group `answer`.
"""

from __future__ import annotations

import re

_VERDICT = r"(?:correct|right|wrong|incorrect|clear|obvious|unique|below|above|as follows)\b"
"""Words that say something about an answer, after "the answer is"."""
_THEREFORE = r"(?:\s*,?\s*(?:therefore|thus|hence|then|indeed|simply|just)\b\s*,?)?+"
ANSWER_WORDS = re.compile(
    rf"(?i:.*\banswer[*_]*\s*(?:is(?![\w'’]){_THEREFORE}(?!\s*{_VERDICT})\s*[:：]?|[:：=]))[*_]*\s*(?P<answer>.*)"
)
"""Matches a line like "Answer: X" or "... the answer is X"."""

_WORDS_OF_LANGUAGES = (
    # nouns, words between the noun and the verb, verbs
    (r"réponse", r"(?:\s+(?:finale|correcte|exacte))?", r"est"),
    (r"antwort", r"", r"(?:ist|lautet)"),
    (r"respuesta", r"(?:\s+(?:final|correcta))?", r"es"),
    (r"risposta", r"(?:\s+(?:finale|corretta|esatta|giusta))?", r"(?:è|e['’])"),
    (r"resposta", r"(?:\s+(?:final|correta|certa))?", r"(?:é|e)"),
    (r"antwoord", r"", r"is"),
    (r"svar(?:et)?", r"", r"(?:är|er)"),
    (r"odpowiedź", r"", r"(?:to|jest)"),
    (r"alternativa", r"\s+(?:correta|correcta|certa)", r"(?:é|es)"),
    (r"richtige\s+option", r"", r"ist"),
    (r"cevap", r"", r"olarak"),
    (r"jawaban(?:nya)?", r"(?:\s+yang\s+benar)?", r"adalah"),
    (r"đáp\s+án", r"(?:\s+đúng)?", r"là"),
    (r"(?:الجواب|الإجابة)", r"(?:\s+الصحيحة)?", r"(?:هو|هي)"),
    (r"उत्तर", r"", r"है"),
    (r"(?:правильный\s+)?ответ", r"", r"[-–—]"),
)
_WORDS_WITHOUT_SPACES = (
    r"(?:答案|答え|正解|回答|答|정답|답)(?:\s*(?:应该?|應該?))?\s*(?:[:：=]|是|为|為|は|[은는이])"
)
FOREIGN_ANSWER_WORDS = (
    *(
        re.compile(
            rf"(?i:.*\b{noun}{between}\s*(?:{verb}(?!\w)\s*[:：]?|[:：=])\s*+"
            r"(?:(?:la|le|el|il|o|a|die|de)\s+|l['’])?(?:(?:option|opción|opção|opzione|optie|letra|lettre|lettera)\s+)?"
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
WEAK_ANSWER_MARKS = (
    re.compile(r"(?i:\W*(?:the\s+)?(?:(?:final|correct)\s+)?answer)\W*(?P<answer>)$"),
    re.compile(
        r"(?i:.*\banswer(?:\s+(?:to|of|for|in)\s[^.:：=]{1,80}?)?"
        r"(?:\s+(?:(?:would|should|must|will|has\s+to)\s+be|is(?!['’])|equals|comes\s+(?:out\s+)?to)\b\s*[:：]?"
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
    re.compile(r"(?i:(?:.*[.!?,]\s+)?(?:correction\s*[:：]|make\s+(?:that|it))\s*(?P<answer>.*))"),
    re.compile(
        r"(?i:(?:.*[.!?:]\s+)?(?:it|that|this)\s+should\s+(?:instead\s+)?(?:be|have\s+been)\s+(?P<answer>.*))"
    ),
)
"""Lines that state an answer in place of one before: "Wait, it should be X"."""
