"""Words after an answer that take it back: "Actually, this is incorrect", "I made a mistake", "Scratch that".

A remark about something else is none: "A common mistake is 14. This is incorrect because ..." speaks of 14. So a
retraction begins with an exclamation, or it names the writer or the answer.
"""

from __future__ import annotations

import re

__all__ = ["find_retraction", "is_crossed_out"]

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
      | {_MAYBE_EXCLAIMED}(?:i|we)\s+(?:(?:do\s+not|don['’]t)\s+(?:have|know)\s+(?:a|an|the|any)|have\s+no)\s+
        (?:\w+\s+)?(?:answer|result|solution|idea)\b
      | {_SURELY_EXCLAIMED}(?:i|we)\s+(?:really\s+|honestly\s+)?(?:do\s+not|don['’]t)\s+know\s+
        (?:what|which|whether|who)\b
      | {_MAYBE_EXCLAIMED}(?:please\s+)?(?:scratch|strike|ignore|disregard|forget)\s+(?:that|this|the\s+above|{_ANSWER})
        (?!\s+\w+\s+(?:if|because)\b)
      | {_MAYBE_EXCLAIMED}i\s+(?:take\s+(?:that|it|this)\s+back|retract)
      | {_MAYBE_EXCLAIMED}(?:i|we)\s+(?:really\s+|just\s+|honestly\s+)?(?:can(?:['’]t|not)|could\s*(?:n['’]t|\s+not))\s+
        (?:say|tell|decide|determine|choose|know|commit)(?=\s*(?:[.!;]|$|whether\b|between\b|for\s+sure\b|which\s+(?:one|is|option)\b))
      | just\s+kidding\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_ELSEWHERE = (
    # exclamations, and verdicts on what was said before
    (
        r"moment(?:\s+mal)?|halt|stopp?|nein|doch\s+nicht|korrektur|entschuldigung|ich\s+habe\s+mich\s+(?:geirrt|verrechnet)",
        r"(?:das|dies|die\s+antwort)\s+(?:ist|war)\s+(?:leider\s+|doch\s+)?(?:falsch|nicht\s+(?:richtig|korrekt)|ein\s+fehler)"
        r"|das\s+stimmt\s+nicht",
    ),
    (
        r"attende[zs]|attends|non|pardon|désolée?|rectification|je\s+me\s+suis\s+trompée?",
        r"c['’](?:est|était)\s+(?:faux|incorrect|une\s+erreur)|ce\s+n['’]est\s+pas\s+(?:correct|juste|exact|bon|ça)",
    ),
    (
        r"espera|espere|perdón|corrección|me\s+equivoqué|me\s+he\s+equivocado|no,\s+(?:espera|perdón)",
        r"(?:eso|esto|la\s+respuesta)\s+(?:es|era|está)\s+(?:incorrect[oa]|fals[oa]|mal|un\s+error|equivocad[oa])"
        r"|(?:eso|esto)\s+no\s+es\s+(?:correcto|cierto)",
    ),
    (
        r"aspetta|aspetti|scusa(?:te)?|correzione|errore|mi\s+sono\s+sbagliat[oa]",
        r"(?:è|questo\s+è|questa\s+è|la\s+risposta\s+è)\s+(?:sbagliat[oa]|errat[oa]|fals[oa]|un\s+errore)"
        r"|(?:questo\s+)?non\s+è\s+(?:corretto|giusto|vero)",
    ),
    (
        r"espere|não(?=\s*[,:.;!])|desculpe|correção|erro|me\s+enganei|enganei-me",
        r"(?:isso|isto|a\s+resposta)\s+(?:está|é|estava)\s+(?:errad[oa]|incorret[oa]|fals[oa]|um\s+erro)|isso\s+não\s+está\s+corr?eto",
    ),
    (
        r"wacht|nee|correctie|fout|ik\s+heb\s+me\s+vergist",
        r"dat\s+(?:is|was)\s+(?:fout|onjuist|niet\s+juist|verkeerd)|dat\s+klopt\s+niet",
    ),
    (
        r"vänta|nej|vent|nei|rättelse|rettelse",
        r"det\s+(?:är|er|var)\s+(?:fel|feil|forkert|inte\s+rätt|ikke\s+riktig)|det\s+stämmer\s+inte",
    ),
    (
        r"czekaj|zaraz|nie(?=\s*[,:.;!])|poprawka|pomyłka",
        r"to\s+(?:jest\s+)?(?:błąd|źle|błędne|nieprawda|niepoprawne)",
    ),
    (r"bekle|hayır|düzeltme|yanlış", r"bu\s+(?:yanlış|doğru\s+değil)"),
    (r"tunggu|tidak(?=\s*[,:.;!])|koreksi|maaf|ralat", r"(?:itu|ini)\s+(?:salah|tidak\s+benar|keliru)"),
    (
        r"khoan|đợi\s+đã|không(?=\s*[,:.;!])|xin\s+lỗi|sửa\s+lại",
        r"(?:điều\s+)?(?:đó|này)\s+(?:là\s+)?(?:sai|không\s+đúng)",
    ),
    (
        r"подождите|подожди|стоп|нет|исправление|поправка|ошибка|я\s+ошиб(?:ся|лась)|извините|точнее",
        r"(?:это\s+)?(?:неверно|неправильно|не\s+так|ошибка|неправда|не\s+верно)",
    ),
    (r"انتظر|لا(?=\s*[,،:.;!])|تصحيح|عذرا", r"(?:هذا|هذه)\s+(?:خطأ|غير\s+صحيح)"),
    (r"रुकिए|रुको|नहीं|सुधार", r"यह\s+(?:गलत|ग़लत|सही\s+नहीं)"),
)
"""Retractions in the languages of the answer lines, where words stand apart."""
_WITHOUT_SPACES = (
    r"等等|等一下|等下|不对|不對|错了|錯了|更正|修正|抱歉|对不起|對不起|不[,，、]|我错了|我錯了|应该是|應該是"
    r"|(?:这|這|那|上面|答案)[^。\n]{0,4}(?:是)?(?:错误|錯誤|错|錯|不对|不對|不正确|不正確)"
    r"|待って|いや|いいえ|訂正|間違い|間違え|すみません|(?:これ|それ)は(?:間違|違い|正しくな)"
    r"|아니|잠깐|잠시만|정정|죄송|틀렸|틀린|(?:이것은|그것은|이는)\s*(?:틀|잘못)"
)
_RETRACTION_ELSEWHERE = re.compile(
    r"(?:^|[.!…。！\n，、—–])[\s*_\"'(]{0,8}(?:(?:"
    + "|".join(f"(?:{said}|(?:{verdict}))" for said, verdict in _ELSEWHERE)
    + rf")(?=\s*(?:[,،.:;!…\n—–]|$))|(?:{_WITHOUT_SPACES}))",
    re.IGNORECASE,
)
_CROSSED_OUT = re.compile(
    r"[ \t$*_.,;:–—)}\]()-]{0,8}(?:[✗✘❌✖×](?!\s*[\w$\\])|(?:nope|just\s+kidding|아님|아닙니다|아니다)(?!\w))",
    re.IGNORECASE,
)
"""A mark directly after an answer that crosses it out: "B ✗", "B nope"."""
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
    crossed_out = _CROSSED_OUT.match(words)
    end = crossed_out.end() if crossed_out else None
    for found in (*_RETRACTION_ELSEWHERE.finditer(words), *_RETRACTION.finditer(words)):
        start = max(0, found.start() - 200)
        if _EXCEPTION.search(words[start : found.start() + 1]) or _REAFFIRMED.match(words, found.end()):
            continue
        end = max(end or 0, found.end())
    return end


def is_crossed_out(answer: str) -> bool:
    """Return whether an answer line ends with a mark that crosses its answer out: "B nope", "5 ✗"."""
    return _CROSSED_OUT_END.search(answer) is not None


_CROSSED_OUT_END = re.compile(rf"(?<=\S){_CROSSED_OUT.pattern}[\s.!]*\Z", re.IGNORECASE)
