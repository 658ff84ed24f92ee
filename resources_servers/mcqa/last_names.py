"""The letter that ends a text without a cue: "It is Madrid. D", "Spain → Madrid → D", "It is Madrid, option D."

The words before the letter must be whole, name no other letter, and not contradict it: "It is Madrid. A" is no choice
where Madrid is the option D.
"""

from __future__ import annotations

import re

from nemo_gym.verify.sentences import split_sentences
from resources_servers.mcqa.option_texts import Options, has_phrase, plain_text
from resources_servers.mcqa.remarks import find_letters

_AT_END = re.compile(
    r"(?P<lead>.*\S)(?:(?P<stop>(?<=[.!?…])[\"”)\]]?\s+)"
    r"|\s*(?P<arrow>→|⇒|⟹|[-=]>|\\(?:to|[Rr]ightarrow)(?![a-zA-Z]))\s*(?:(?i:option|choice|answer)\s+)?"
    r"|\s*(?P<colon>:)\s+(?:(?i:option|choice|answer)\s+)?"
    r"|(?:\s*,|\s*;|\s*[–—]|\s-)\s+(?i:option|choice|answer)\s+|\s[–—-]\s+(?=\())"
    r"(?P<name>\(?(?P<letter>[A-Z])[).!\s]*)\Z"
)
_WHOLE = re.compile(r"(?:[^\W_]{2}|\d|[)\]\"”%°$])[.!?…]+[\"”)\]]?\Z")
_ABBREVIATED = re.compile(
    r"\b(?:fig|sec|prof|pt|no|nos|dr|mr|mrs|ms|st|vs|eq|ch|vol|sgt|gen|ex|eg|ie|cf|ca|approx|var|sp|spp|subsp|ssp)\.\Z",
    re.IGNORECASE,
)
_REFUSED = (
    r"wrong|incorrect|false|rul(?:e[sd]?|ing)\s+out|eliminat\w+|exclud\w+|reject\w*|dismiss\w*|discard\w*|trap|distractor"
    r"|tempting|mistak\w+|either|or|maybe|perhaps|possibly|unsure|not\s+sure|don['’]t\s+know"
)
_UNSTATED = re.compile(rf"\b(?:{_REFUSED})\b|\A\W*(?:not|no|nor|never)\b", re.IGNORECASE)
_NOT_LINKED = re.compile(
    rf"\b(?:{_REFUSED}|not|no|nor|never|neither|cannot|\w+n['’]t|without|except|but|unlike|than|if|unless|could|might|may"
    r"|would|should|consider\w*|check\w*|let|try|test\w*|compare[ds]?|some|many|most|people|students?|next|first|start\w*"
    r"|least|opposite|guess|think|thought|rather|instead|versus|vs)\b|\?",
    re.IGNORECASE,
)
"""Words that leave open whether the name behind a comma, a dash or an arrow is chosen."""


def find_last_name(lines: list[str], options: Options) -> str | None:
    """Return the option whose letter ends the last line, behind a sentence, an arrow, or a comma and "option"."""
    found = _AT_END.fullmatch(plain_text(lines[-1]))
    if found is None or found["letter"] not in options:
        return None
    letter, lead = found["letter"], found["lead"]
    before = "\n".join([*map(plain_text, lines[:-1]), lead])
    sentence = split_sentences(lead)[-1] if split_sentences(lead) else ""
    named = {other for other, text in options.items() if text and has_phrase(sentence, text)}
    if set(find_letters(before, options)) - {letter} or (named and letter not in named):
        return None
    if found["stop"]:
        is_whole = _WHOLE.search(lead) is not None and _ABBREVIATED.search(lead) is None
        is_word = letter in "AI" and found["name"].strip() == letter and letter not in named
        return letter if is_whole and not is_word and _UNSTATED.search(sentence) is None else None
    is_formula = found["arrow"] is not None and re.search(r"(?<![\w'’])[^\W\d_](?!\w)|\+", lead) is not None
    has_words = re.search(r"[^\W\d_]{2}", lead) is not None
    is_list = found["colon"] is not None and _LISTS.search(sentence) is not None
    return (
        letter if has_words and not (is_formula or is_list) and _NOT_LINKED.search(sentence) is None else None
    )


_LISTS = re.compile(
    r"\b(?:options|choices|second|third|last|hint|grade|note|example|following|letters?|key)\b", re.IGNORECASE
)
"""Words before a colon behind which no choice stands."""
