"""The option that a text names without any cue, where nothing else may be meant.

**C**, then an explanation; an explanation, then "C. Nitrogen"     a letter on the first or the last line
C. Nitrogen is the most abundant gas.                               a letter and its text that begin a sentence
It is a gas, option C.                                              a letter at the end of the text
All of the above.                                                   all of an option's text
The capital of France is Paris.                                     the only option's text, at the end of the text
"""

from __future__ import annotations

import re

from nemo_gym.verify.answer_marks import find_aside
from nemo_gym.verify.corrections import find_retraction
from nemo_gym.verify.sentences import split_sentences
from resources_servers.mcqa.last_names import find_last_name
from resources_servers.mcqa.option_texts import Options, find_same, has_phrase, plain_text
from resources_servers.mcqa.remarks import find_letters, is_only_choice
from resources_servers.mcqa.statements import find_labelled, find_lettered

_LONGEST_TEXT = 5_000
_LETTER_ALONE = re.compile(
    r"\W*(?:[A-Z]|(?<=\()[a-z](?=\))|(?i:(?:option|choice|letter)\W+[A-Z]))(?:,\s+(?i:obviously|clearly|definitely|of\s+course|for\s+sure|certainly|final\s+answer))?\W*"
)
_KIND = re.compile(r"\A\W*(?:option|choice)\s+(?=\(?[A-Z]\b)", re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:```\w*|---+)\s*")


def find_lone_name(text: str, options: Options) -> str | None:
    """Return the option that the text names on its first or last line, as a whole, or at its end."""
    if len(text) > _LONGEST_TEXT:
        return None
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and not _FENCE.fullmatch(line) and split_sentences(line)
    ]
    if not lines:
        return None
    named = {letter for line in lines if (letter := _read_line(line, options))}
    if named:
        ends = {letter for line in (lines[0], lines[-1]) if (letter := _read_line(line, options))}
        is_one = len(ends) == 1 and ends == named and not _is_cut_off(lines[-1], options)
        return ends.pop() if is_one else None
    return _find_opening(lines, options) or find_last_name(lines, options) or _find_text(lines, options)


def find_lone_letter(text: str, options: Options) -> str | None:
    """Return the option of a last line that is only a letter: "Option C." An article or a pronoun is none."""
    lines = text.rstrip("` \n$").rsplit("\n", 1)
    plain = plain_text(lines[-1]) if len(lines) == 2 else ""
    is_letter = _LETTER_ALONE.fullmatch(plain) is not None and plain not in ("A", "I")
    letter = find_lettered(plain, options, may_explain=False) if is_letter else None
    others = {other for line in lines[:-1] for other in find_letters(line, options)}
    return letter if others <= {letter} else None


def _read_line(line: str, options: Options) -> str | None:
    """Return the option of a line that is only its letter, or its letter and its text, perhaps before a remark."""
    plain = plain_text(line.strip("`#> \t"))
    if _LETTER_ALONE.fullmatch(plain):
        return find_lettered(plain.partition(", ")[0], options, may_explain=False)
    plain = _KIND.sub("", plain)
    labelled = find_labelled(plain, options)
    if labelled is not None:
        return labelled
    letter, remark = _split_label(plain, options)
    is_remark = letter is not None and re.match(r"[.!]\s|\s*[(—–]|\s+-\s", remark) is not None
    return letter if is_remark and is_only_choice(letter or "", remark.lstrip(".! "), options, ".") else None


_LABEL = re.compile(r"[^\w\s-]*(?P<letter>[A-Za-z])(?:\s*[).:]+|\s[-–—](?=\s))\s*")


def _split_label(plain: str, options: Options) -> tuple[str | None, str]:
    """Return the letter of a line that begins with it and its text, and the words behind them."""
    label = _LABEL.match(plain)
    letter = label["letter"].upper() if label else ""
    if label is None or not options.get(letter):
        return None, ""
    own, said = plain_text(options[letter]).rstrip("."), plain[label.end() :]
    return (letter, said[len(own) :]) if said.lower().startswith(own.lower()) else (None, "")


def _is_cut_off(line: str, options: Options) -> bool:
    """Return whether a line is a label and the beginning of its text, as in a list that was cut off."""
    plain = plain_text(line)
    label = _LABEL.match(plain)
    own = plain_text(options.get(label["letter"].upper(), "")) if label else ""
    said = plain[label.end() :].strip() if label else ""
    return label is not None and said != own and own.lower().startswith(said.lower()) and own != ""


_GOES_ON = re.compile(
    r"(?:,\s+(?:because|since|as|which|where|who|due|given|the|an?|also)"
    r"|\s+(?:is|are|was|were|has|have|had|does|do|did|can|will|must|because|since|as|due|which|who|that|became"
    r"|(?:produc|contain|refer|mean|caus|mak|giv|us|work|act|help|occur|happen|follow|stat|describ|explain|allow|provid"
    r"|includ|consist|form|play|serv|represent|belong|requir|lie|orbit|dissociat|react|releas|stor|carr|transport|regulat"
    r"|control|prevent|protect|wrote|discover|invent|paint|won|began|le[ad]d|depend|measur|involv|satisf|match|fit|equal"
    r"|remain|show|creat|chang|increas|decreas|los|suffer|benefit|ris|fall|grow|need|mov|liv|gain|cost|spread|flow|end|start|turn)(?:e|es|s|ies|y|d|ed)?))(?!\w)"
)
"""The words that make a sentence of an option's text. "Paris and London" is another text."""


def _find_opening(lines: list[str], options: Options) -> str | None:
    """Return the option whose letter and text begin a text and its first sentence, unless the text is a list."""
    letter, remark = _split_label(_KIND.sub("", plain_text(lines[0].strip("`#> \t"))), options)
    labels = {label["letter"].upper() for line in lines[1:] if (label := _LABEL.match(plain_text(line)))}
    if letter is None or labels & options.keys() or _GOES_ON.match(remark) is None:
        return None
    said = _KIND.sub("", "\n".join(line.strip("`#> \t") for line in lines))
    is_denied = (
        re.search(rf"\bnot\s+(?:(?i:option|choice|answer)\s+)?\(?{letter}\b(?!\s\w)", said) is not None
    )
    return letter if not is_denied and find_lettered(said, options, may_explain=True) == letter else None


def _find_text(lines: list[str], options: Options) -> str | None:
    alone = [letter for line in lines if (letter := find_same(line.strip("*_ \t").rstrip("."), options))]
    at_ends = {find_same(line.strip("*_ \t").rstrip("."), options) for line in (lines[0], lines[-1])}
    if len(alone) == 1 and alone[0] in at_ends and find_retraction("\n".join(lines[1:])) is None:
        return alone[0]
    sentence = plain_text(split_sentences(lines[-1])[-1])
    named = _NAME_BEHIND.search(sentence)
    if named is None:
        return _find_stated_text(sentence, options)
    own = _find_stated_text(sentence[: named.start()], options) or find_same(
        sentence[: named.start()], options
    )
    is_alone = not sentence[: named.start()].strip()
    return named[1] if named[1] in options and (is_alone or own == named[1]) else None


_NAME_BEHIND = re.compile(r"\s*\((?:(?i:option|choice)\s+)?([A-Z])\)[\s.!]*\Z")


_STATES = re.compile(
    r"\b(?:is|are|was|were|equals?|becomes?|remains?|lies|means|has|have|it['’]s|that['’]s)\b|="
    r"|\b(?:ended|began|started|occurred|happened|died|born|signed|founded|built|took\s+place|fell|broke\s+out)\s+(?:in|on|at)\s+\Z",
    re.IGNORECASE,
)
_PLACES = re.compile(
    r"\A[A-Z]\S*(?:\s+\S+){2,}\s+(?:in|at|on|to|from|by|with|into|as)\s+(?:the\s+|an?\s+)?\Z"
)
"""A sentence that leads to its end by a preposition: "The sun sets in the west."."""
_OPEN = re.compile(
    r"[?？]|\b(?:not|no|never|neither|nor|cannot|\w+n['’]t|wrong|incorrect|unlikely|or|either|maybe|perhaps|possibly"
    r"|probably|might|may|could|would|should|if|unless|suppose|assume|assuming|let|guess|unsure|sure|unknown|between|about"
    r"|than|like|unlike|except|but|although|while|whereas|however|both|and\s+not|consider|compare[ds]?|think|thought|believe[ds]?|some|many|most"
    r"|people|students?|options?|choices?|question|claim|mistaken|tempting|impossible|opposite|called\s+into)\b",
    re.IGNORECASE,
)


_CHANGED = re.compile(r"[-−+<>≤≥≠~≈±^/*×·√]\s*\Z")
"""A sign before a number or a formula that makes another one of it."""


_RELATIVE = re.compile(r",\s+(?:whose|which|who|where|when)\b[^,]*\Z")
"""A clause about another thing, which is still open: "made by ribosomes, whose parts come from the nucleus"."""


def _find_stated_text(sentence: str, options: Options) -> str | None:
    """Return the only option whose text a sentence names, at its end and after its verb."""
    said = sentence.strip(" .!*_")
    named = [letter for letter, text in options.items() if text and has_phrase(said, text)]
    longest = max(named, key=lambda letter: len(options[letter]), default="")
    if not longest or any(not has_phrase(options[longest], options[letter]) for letter in named):
        return None
    own = plain_text(options[longest]).strip(" .")
    lead = said[: len(said) - len(own)]
    if _CHANGED.search(lead) or _RELATIVE.search(lead) or find_aside(lead) is not None:
        return None
    is_stated = _STATES.search(lead) is not None or _PLACES.search(lead) is not None
    if not said.lower().endswith(own.lower()) or _OPEN.search(lead) or not is_stated:
        return None
    return longest
