"""The option that a text names without any cue, where nothing else may be meant.

**C**, then an explanation; an explanation, then "C. Nitrogen"     a letter on the first or the last line
All of the above.                                                   all of an option's text
The capital of France is Paris.                                     the only option's text, at the end of the text
"""

from __future__ import annotations

import re

from nemo_gym.verify.sentences import split_sentences
from resources_servers.mcqa.option_texts import Options, find_same, has_phrase, plain_text
from resources_servers.mcqa.remarks import is_only_choice
from resources_servers.mcqa.statements import find_labelled, find_lettered

_LONGEST_TEXT = 5_000
_LETTER_ALONE = re.compile(r"\W*(?:[A-Z]|(?i:(?:option|choice)\W+[A-Z]))\W*")
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
        return ends.pop() if len(ends) == 1 and ends == named else None
    return _find_text(lines, options)


def _read_line(line: str, options: Options) -> str | None:
    """Return the option of a line that is only its letter, or its letter and its text, perhaps before a remark."""
    plain = plain_text(line.strip("`#> \t"))
    if _LETTER_ALONE.fullmatch(plain):
        return find_lettered(plain, options, may_explain=False)
    plain = _KIND.sub("", plain)
    labelled = find_labelled(plain, options)
    if labelled is not None:
        return labelled
    label = re.match(r"\W*([A-Z])\s*[).:]\s*", plain_text(plain))
    if label is None or not options.get(label[1]):
        return None
    own, said = plain_text(options[label[1]]), plain_text(plain)[label.end() :]
    if not said.lower().startswith(own.lower()):
        return None
    remark = said[len(own) :]
    is_remark = re.match(r"[.!]\s|\s*[(—–]|\s+-\s", remark) is not None
    return label[1] if is_remark and is_only_choice(label[1], remark.lstrip(".! "), options, ".") else None


def _find_text(lines: list[str], options: Options) -> str | None:
    if len(lines) == 1 or re.fullmatch(r"\s*\*\*.*\*\*\W*", lines[-1]):
        letter = find_same(lines[-1].strip("*_ \t"), options)
        if letter is not None:
            return letter
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
    r"\b(?:is|are|was|were|equals?|becomes?|remains?|lies|means|has|have|it['’]s|that['’]s)\b|=",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"[?？]|\b(?:not|no|never|neither|nor|cannot|\w+n['’]t|wrong|incorrect|unlikely|or|either|maybe|perhaps|possibly"
    r"|probably|might|may|could|would|should|if|unless|suppose|assume|assuming|let|guess|unsure|sure|unknown|between|about"
    r"|than|like|unlike|except|but|although|while|whereas|however|both|and\s+not|consider|compare[ds]?|think|thought|believe[ds]?|some|many|most"
    r"|people|students?|options?|choices?|question|claim|mistaken|tempting|impossible|opposite|called\s+into)\b",
    re.IGNORECASE,
)


def _find_stated_text(sentence: str, options: Options) -> str | None:
    """Return the only option whose text a sentence names, at its end and after its verb."""
    said = sentence.strip(" .!*_")
    named = [letter for letter, text in options.items() if text and has_phrase(said, text)]
    longest = max(named, key=lambda letter: len(options[letter]), default="")
    if not longest or any(not has_phrase(options[longest], options[letter]) for letter in named):
        return None
    own = plain_text(options[longest]).strip(" .")
    lead = said[: len(said) - len(own)]
    if not said.lower().endswith(own.lower()) or _OPEN.search(lead) or _STATES.search(lead) is None:
        return None
    return longest
