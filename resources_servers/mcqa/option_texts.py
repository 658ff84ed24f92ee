"""The texts of options: whether a text is all of an option, in any typesetting.

Numbers and formulas are compared as such: 24.0 is 24, `x/2` is `$\\frac x2$`, and `.5` is not 5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nemo_gym.verify.matching import is_same_formula, is_same_molecule, normalize, whole_words
from nemo_gym.verify.numbers import Quantity, read_quantity
from nemo_gym.verify.typesetting import strip_math_marks, unwrap_text
from nemo_gym.verify.units import PERCENT

Options = Mapping[str, str]
"""Option texts by letter, A to Z. The text is "" when only the letter is known."""


def find_same(statement: str, options: Options) -> str | None:
    """Return the only option whose text is the statement; the case decides between texts that differ in it only."""
    if len(statement) > _LONGEST_TYPESETTING + 4 * max(map(len, options.values()), default=0):
        return None
    named = [letter for letter, text in options.items() if text and is_same_text(text, statement)]
    if len(named) > 1:
        said = plain_text(statement)
        named = [letter for letter in named if plain_text(options[letter]) == said]
    return named[0] if len(named) == 1 else None


_LONGEST_TYPESETTING = 400
"""A statement that is longer than an option's text by more than its typesetting is not that text."""
_OF_THESE = re.compile(
    r"\b(none|all)\s+of\s+(?:these|those|them|the\s+(?:above|options|choices|answers)|the\s+(?:above|given)\s+(?:options|choices|answers))\Z"
)
_ARTICLE = re.compile(r"\A(?:the|an?)\s+(?=\S)")


def is_same_text(text: str, said: str) -> bool:
    """Return whether a statement is all of an option's text. A question is none, nor is "~5"."""
    one, other = plain_text(text), plain_text(said)
    if other.startswith("~") or (other.endswith("?") and not one.endswith("?")):
        return False
    numbers = read_quantity(one), read_quantity(other)
    if numbers[0] is not None and numbers[1] is not None:
        return is_same_number(numbers[0], numbers[1])
    wanted, given = (_OF_THESE.sub(r"\1 of the above", normalize(text)) for text in (one, other))
    if wanted and (wanted == given or _ARTICLE.sub("", given) == _ARTICLE.sub("", wanted)):
        return True
    if is_same_molecule(text, said):
        return True
    is_formula = bool(one) and (not has_words(one) or strip_math_marks(text) != text.strip())
    return is_formula and is_same_formula(one, other)


def plain_text(text: str) -> str:
    """Return a text without typesetting, with single spaces."""
    return " ".join(remove_marks(text).split())


def is_same_number(one: Quantity, other: Quantity) -> bool:
    """Return whether both are exactly equal; only the second may have a unit that the first leaves out."""
    if one.unit.dimensions == other.unit.dimensions:
        return one.value * one.unit.factor == other.value * other.unit.factor
    return not one.unit.is_given and other.unit != PERCENT and one.value == other.value


def has_words(text: str) -> bool:
    """Return whether a text is prose: it has a word of three letters that is no command and no function."""
    return _WORD.search(text) is not None


_WORD = re.compile(
    r"(?<![\\a-zA-Z])(?!(?:log|exp|lim|max|min|mod|gcd|lcm|sin|cos|tan|cot|sec|csc)(?![a-zA-Z]))[^\W\d_]{3,}"
)


_SPACE = re.compile(
    r"\\(?:[ ,;:!]|q?quad(?![a-zA-Z])|(?:left|right|big|Big|bigg|Bigg|[bB]ig[lr])(?![a-zA-Z]))"
    r"|(?<=[^\s~])~(?!~)"
)
_DECORATION = re.compile(
    r"\\(?:textcolor|colorbox)\s*\{\w+\}|\\color\s*\{\w+\}|\\(?:rm|bf|it|sf|tt|displaystyle|[lL]arge|huge)(?![a-zA-Z])"
)
_BRACES = re.compile(r"(?<![\\\w^_}])\{([^{}]*)\}(?!\{)")
_ARGUMENT_SPACE = re.compile(r"(\\(?:[dtc]?frac|sqrt)(?![a-zA-Z])|\})\s+(?=\{)")
"""Without it the braces of an argument would be those of a group, which mean nothing."""
_TAG = re.compile(r"<(b|strong|i|em|u|code|mark)>([^<>]*)</\1>", re.IGNORECASE)
_STARS = re.compile(r"(?<![\w*])\*{1,3}([^*]+)\*{1,3}(?![\w*])")
_LETTERS_OF_SCRIPTS = str.maketrans("أبجدঅবডঢ", "ABCDABCD")


_DOLLAR = "\0"
"""An amount of money is no formula."""


def remove_marks(statement: str) -> str:
    """Remove typesetting that means nothing: fonts, colours, spaces of LaTeX, dollars, emphasis."""
    text = _STARS.sub(r"\1", _TAG.sub(r"\2", statement.translate(_LETTERS_OF_SCRIPTS)))
    text = _ARGUMENT_SPACE.sub(r"\1", text)
    text = _SPACE.sub(" ", unwrap_text(_BRACES.sub(r"\1", _DECORATION.sub("", unwrap_text(text)))))
    text = re.sub(r"\\[()\[\]]", " ", text)
    text = text.replace("\\$", _DOLLAR)
    text = text.replace("$", " ") if text.count("$") % 2 == 0 else text
    text = text.replace(_DOLLAR, "$")
    return text.strip()


def has_phrase(said: str, phrase: str) -> bool:
    """Return whether a phrase occurs in a text as whole words."""
    wanted = normalize(phrase)
    return bool(wanted) and re.search(whole_words(wanted), normalize(said)) is not None
