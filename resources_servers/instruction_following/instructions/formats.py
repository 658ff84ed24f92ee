"""Instructions about markup: bullets, titles, sections, highlights, brackets, quotes, emojis."""

from __future__ import annotations

import re
from itertools import pairwise, zip_longest

from resources_servers.instruction_following.instructions.parameters import Count, Phrase
from resources_servers.instruction_following.instructions.registry import instruction
from resources_servers.instruction_following.instructions.text_units import lines, sentences, words

_PLACEHOLDER = re.compile(r"\[[^\[\]\n]*\]")


@instruction(
    "detectable_content:number_placeholders", wording="Use {num_placeholders} [placeholders] or more."
)
def has_placeholders(text: str, *, num_placeholders: Count) -> bool:
    return len(_PLACEHOLDER.findall(text)) >= num_placeholders


_POSTSCRIPT_MARKS = {"P.S.": re.compile(r"p\.\s?s\."), "P.P.S": re.compile(r"p\.\s?p\.\s?s")}


@instruction(
    "detectable_content:postscript", wording="End with a postscript that starts with {postscript_marker}."
)
def has_postscript(text: str, *, postscript_marker: Phrase) -> bool:
    mark = _POSTSCRIPT_MARKS.get(postscript_marker, re.compile(re.escape(postscript_marker.lower())))
    return any(mark.match(line.lower().lstrip("*_ ")) for line in lines(text)[1:])


_BULLET = re.compile(r"^[^\S\n]*(?P<mark>[*-])[^\S\n]+\S", re.MULTILINE)


@instruction(
    "detectable_format:number_bullet_lists", wording="Write exactly {num_bullets} bullet points, with * or -."
)
def has_bullets(text: str, *, num_bullets: Count) -> bool:
    return len(_BULLET.findall(text)) == num_bullets


@instruction("format:sub-bullets", wording="Write * bullet points, each with - bullet points under it.")
def has_sub_bullets(text: str) -> bool:
    marks = "".join(bullet["mark"] for bullet in _BULLET.finditer(text))
    return "*" in marks and "**" not in marks and marks.endswith("-")


@instruction(
    "format:no_bullets_bullets", wording="Write two or more sentences, and then two or more * bullet points."
)
def has_sentences_before_bullets(text: str) -> bool:
    first = next((bullet.start() for bullet in _BULLET.finditer(text) if bullet["mark"] == "*"), len(text))
    statements = [sentence for sentence in sentences(text[:first]) if sentence.endswith(".")]
    bullets = [_BULLET.match(line) is not None for line in lines(text[first:])]
    return len(statements) >= 2 and len(bullets) >= 2 and all(bullets)


@instruction("format:list", wording="Give a list whose items start with {sep}.")
def is_list_with_marker(text: str, *, sep: Phrase) -> bool:
    return sum(line.lstrip().startswith(sep) for line in lines(text)) >= 2


_HIGHLIGHT = re.compile(r"(?<!\*)(\*{1,2})(?=[^\s*])[^*\n]*(?<=[^\s*])\1(?!\*)")


@instruction(
    "detectable_format:number_highlighted_sections",
    wording="Highlight {num_highlights} parts or more, as *this* or **this**.",
)
def has_highlights(text: str, *, num_highlights: Count) -> bool:
    return sum(1 for _ in _HIGHLIGHT.finditer(text)) >= num_highlights


@instruction(
    "detectable_format:multiple_sections",
    wording="Write {num_sections} or more sections, each headed by {section_spliter} and its number.",
)
def has_sections(text: str, *, section_spliter: Phrase, num_sections: Count) -> bool:
    heading = re.compile(rf"(?<!\w){re.escape(section_spliter)}\s?\d+")
    return len(heading.findall(text)) >= num_sections


_TITLE = re.compile(r"<<([^<>\n]+)>>")


@instruction("detectable_format:title", wording="Give a title, as <<title>>.")
def has_title(text: str) -> bool:
    return any(title.strip() for title in _TITLE.findall(text))


_THESIS = re.compile(r"<(i|em)>([^<]*+)</\1>", re.IGNORECASE)


@instruction("format:thesis", wording="Start with a statement in italics by HTML, with more text after it.")
def has_thesis(text: str) -> bool:
    thesis = next((found for found in _THESIS.finditer(text) if found[2].strip()), None)
    return thesis is not None and bool(text[thesis.end() :].strip())


@instruction(
    "detectable_format:sentence_hyphens", wording="Join the sentences by hyphens, without spaces between."
)
def has_hyphened_sentences(text: str) -> bool:
    return "-" in text and len(sentences(text)) == 1 and _SPACE_AROUND_HYPHEN.search(text) is None


_SPACE_AROUND_HYPHEN = re.compile(r"[.!?](?:\s-|-\s)")
_BRACKETED = re.compile(r"\[[^\[\]]+\]\W?")


@instruction("detectable_format:square_brackets", wording="Put every word in [square] [brackets].")
def is_in_square_brackets(text: str) -> bool:
    return all(map(_BRACKETED.fullmatch, text.split()))


_WRAPPED_PAIR = re.compile(r"<<[^\s<>]+\s[^\s<>]+>>")
_WRAPPED_WORD_AT_END = re.compile(r"<<[^\s<>]+>>\W?\Z")


@instruction("detectable_format:bigram_wrapping", wording="Wrap every two words, as <<two words>>.")
def wraps_bigrams(text: str) -> bool:
    rest = _WRAPPED_WORD_AT_END.sub("", _WRAPPED_PAIR.sub("", text))
    return len(rest) < len(text) and not words(rest)


@instruction("format:newline", wording="Write each word on a line of its own.")
def has_one_word_a_line(text: str) -> bool:
    return all(len(words(line)) <= 1 for line in lines(text))


@instruction("format:line_indent", wording="Indent each line more than the one before.")
def is_indented_like_stairs(text: str) -> bool:
    indents = [len(line) - len(line.lstrip()) for line in lines(text)]
    return len(indents) > 1 and all(earlier < later for earlier, later in pairwise(indents))


_DEPTH_OF_BRACKETS = 5


@instruction("format:parentheses", wording="Nest round, square and curly brackets five levels deep.")
def has_nested_brackets(text: str) -> bool:
    open_brackets: list[str] = []
    deepest = 0
    for character in text:
        if character in "([{":
            open_brackets.append(character)
            deepest = max(deepest, len(open_brackets))
        elif character in ")]}":
            if not open_brackets or open_brackets.pop() + character not in ("()", "[]", "{}"):
                open_brackets, deepest = [], 0
            elif not open_brackets:
                if deepest >= _DEPTH_OF_BRACKETS:
                    return True
                deepest = 0
    return False


_DEPTH_OF_QUOTES = 3


@instruction("format:quotes", wording="Nest quotes three levels deep, by turns in \" and '.")
def has_nested_quotes(text: str) -> bool:
    open_quotes: list[str] = []
    deepest = 0
    for place, character in enumerate(text):
        if character not in "\"'" or _is_apostrophe(text, place):
            continue
        if open_quotes[-1:] != [character]:
            open_quotes.append(character)
            deepest = max(deepest, len(open_quotes))
            continue
        open_quotes.pop()
        if not open_quotes:
            if deepest >= _DEPTH_OF_QUOTES:
                return True
            deepest = 0
    return False


def _is_apostrophe(text: str, place: int) -> bool:
    around = text[max(0, place - 1) : place + 2]
    return len(around) == 3 and around[1] == "'" and around[0].isalnum() and around[2].isalnum()


_DOUBLE_QUOTE = re.compile(r'["“”]')


@instruction("format:quote_unquote", wording="Follow every quoted phrase by an explanation without quotes.")
def explains_quotes(text: str) -> bool:
    pieces = _DOUBLE_QUOTE.split(text)
    has_whole_quotes = len(pieces) > 1 and len(pieces) % 2 == 1
    return has_whole_quotes and all(words(explanation) for explanation in pieces[2::2])


_EMOJI = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2190-\u21ff\u3030\u203c\u2049]")
_AFTER_EMOJI = "\ufe0f\u200d\u20e3\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_AROUND_SENTENCE_END = " .!?…\"'”’)*_" + _AFTER_EMOJI


@instruction("format:emoji", wording="End every sentence with an emoji.")
def ends_sentences_with_emoji(text: str) -> bool:
    found = sentences(text)
    ends = [sentence.rstrip(_AROUND_SENTENCE_END)[-1:] for sentence in found]
    # An emoji after the final punctuation mark of a sentence is parsed as the start of the next sentence.
    starts_of_next = [sentence[0] for sentence in found[1:]]
    return all(
        _EMOJI.match(end) or _EMOJI.match(start)
        for end, start in zip_longest(ends, starts_of_next, fillvalue="")
    )
