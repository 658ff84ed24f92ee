"""Words after a number: a counted thing, or words that make another quantity of it.

    5 red apples, 12 wrong answers                        the things are counted: the number is 5, 12
    5 billions, 5 divided by two, 5 wrong, 5 below zero   another number, an operation, no answer

No list of nouns is complete, so the form of a phrase decides: it has a noun in the plural (or any word if the number is
at most one), or a known way to count (`in total`, `of sugar`, `per class`), and none of the words that change a
quantity: names of numbers and of their parts, operators, relations, denials, hedges and conjunctions. A word that
describes a noun (`negative`, `wrong`, `sixth`) needs that noun behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MULTIPLIERS = {
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "lakh": 10**5,
    "lac": 10**5,
    "million": 10**6,
    "crore": 10**7,
    "billion": 10**9,
    "milliard": 10**9,
    "trillion": 10**12,
    "quadrillion": 10**15,
    "quintillion": 10**18,
}

_NUMBERS = (
    "zero", "nil", "nought", "naught", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "(?:thir|four|fif|six|seven|eigh|nine)teens?",
    "(?:twen|thir|fou?r|fif|six|seven|eigh|nine)t(?:y|ies)", "twos", "threes", "fours", "fives", "sixes", "sevens",
    "eights", "nines", "tens", "dozens?", "hundreds?", "thousands?", "lakhs?", "lacs?", "crores?", "arab", "kharab",
    "padma", "myriads?", "score", "gross", r"googol\w*", r"\w*illions?", "(?:m|b|tr)illiard", "milliards",
    r"\w*[mb]illon(?:es)?", "mille", "mega", "giga", "tera", "peta", "hecto", "deca", "deci", "centi", "milli",
    "micro", "nano", "pico",
)  # fmt: skip
_PARTS = (
    "half", "halves", "halfs", "thirds?", "quarters?", "fourths", "fifths", "sixths", "sevenths", "eighths", "ninths",
    "tenths", "elevenths", "twelfths", r"\w+t(?:een|ie)ths", "hundredths?", "thousandths?", r"\w+illi(?:on|ard)ths?",
    "permill?e?", "basis", "fraction", "repeating", "recurring",
)  # fmt: skip
_OPERATORS = (
    "plus", "minus", "times", "over", "divided", "divides", "dividing", "multiplied", "multiply", "multiplying",
    "added", "add", "adding", "subtracted", "subtract", "subtracting", "raised", "power", r"exponent\w*", "squared",
    "cubed", "square", "cubic", "root", "sqrt", "cbrt", "radicals?", "factorials?", "chooses?", "permute", "modulo",
    "modulus", "mod", "remainder", "rem", "reciprocals?", "inverses", "inverted", "negated", "negation", "conjugated?",
    "imaginary", "complement", "transposed?", "log", "logarithms?", "doubled", "tripled", "quadrupled", "twice",
    "thrice", "halved", r"\w+fold", "increased", "decreased", "incremented", "decremented", "equals", "equaling",
    "becomes", "approaches", "base", "ternary", "octal", "hex", "hexadecimal", "infinity", "infty", "infinite",
    "infinitely", "sine", "cosine", "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota",
    "kappa", "lambda", "omicron", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "pi",
)  # fmt: skip
_RELATIONS = (
    "than", "least", "most", "below", "beneath", "under", "underneath", "beyond", "exceeds?", "exceeding", "exceeded",
    "upwards?", "downwards?", "onwards?", "up", "down",
)  # fmt: skip
_DENIALS = (
    "not", "no", "non", "never", "neither", "nor", "none", "nothing", "without", "except", "excepting", "excluding",
    "cannot", "incorrectly", "inaccurately", "wrongly", "falsely", "mistakenly", "undefined", "indeterminate",
    "nonexistent", "unsolvable", "refuted", "disproved", "retracted", "withdrawn", "nonsense", "nan",
)  # fmt: skip
_HEDGES = (
    "or", "but", "either", "maybe", "perhaps", "possibly", "probably", "presumably", "supposedly", "allegedly",
    "seemingly", "apparently", "arguably", "conceivably", "hopefully", "potentially", "guess", "guessing", "unsure",
    "uncertain", "unclear", "doubtful", "ish", "otherwise", "alternatively", "alternately", "else", "instead",
    "rather", "versus", "vs", "then", "also", "likewise", "because", "since", "though", "although", "however",
    "unless", "whereas", "while", "assuming", "whether", "depending", "depends", "conversely", "nevertheless",
    "nonetheless", "if", "besides", "backwards?", "forwards", "oops", "always", "across", "thus", "this", "yes",
    "seems", "fails", "contradicts", "appears", "looks", "sounds", "means", "remains", "gives", "yields", "makes",
    "differs", "something", "whatever", "anything", "approximates",
)  # fmt: skip
_CHANGING = re.compile("|".join((*_NUMBERS, *_PARTS, *_OPERATORS, *_RELATIONS, *_DENIALS, *_HEDGES)))
_DESCRIBING = re.compile(
    "negative|wrong|incorrect|inaccurate|false|untrue|invalid|erroneous|mistaken|impossible|unlikely|likely|probable"
    "|possible|unknown|null|void|rejected|denied|excluded|cancell?ed|prime|binary|decimal|fractional|complex|inverse"
    "|opposite|equal|double|triple|quadruple|multiple|repeated|tangent|alternative|minimum|maximum|reduced|grand"
    "|more|less|fewer|higher|lower|greater|smaller|larger|bigger|above|inferior|superior"
    r"|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|\w+t(?:een|ie)th"
)
_PLURAL = re.compile(
    r"\w{2,}(?<![su])s|children|people|brethren|dice|oxen|data|criteria|vertices|minima|maxima|men|women|teeth|feet|mice|geese|police|cattle|sheep|fish|deer"
)
_PREPOSITIONS = frozenset(("of", "per", "in", "for", "every"))
_COUNTING = _PREPOSITIONS | frozenset((
    "total", "left", "remaining", "each", "apiece", "altogether", "overall", "together", "combined", "all", "exactly",
    "only", "old", "tall", "long", "wide", "high", "deep", "thick", "heavy", "away",
    "apart", "ago", "later", "earlier", "profit", "change", "interest", "tax", "tip", "discount", "money",
))  # fmt: skip
"""Words by which a phrase counts without a plural: `42 in total`, `5 feet tall`, `12 inches of rain`."""
_SHORT_WORDS = frozenset((
    "men", "man", "boy", "kid", "cat", "dog", "cow", "hen", "pig", "bee", "ant", "egg", "pie", "pen", "box", "bag",
    "bus", "car", "cup", "hat", "toy", "key", "way", "row", "jar", "lap", "pcs", "art", "big", "ice", "new", "old",
    "pet", "red", "tea", "gas", "sea", "dry", "wet", "hot", "raw", "toe", "leg", "arm", "eye", "web", "fan", "gel",
    "of",
))  # fmt: skip
"""The only words of fewer than four letters that a phrase starts with: others may be products of letters."""


def changes_quantity(word: str) -> bool:
    """Return whether a word, in lower case, makes another quantity of the number before it."""
    return _CHANGING.fullmatch(word) is not None


def may_start_thing(word: str) -> bool:
    """Return whether a phrase that counts something may start with a word, in lower case."""
    return len(word) >= 4 or word in _SHORT_WORDS


def names_thing(words: Sequence[str], *, is_single: bool) -> bool:
    """Return whether words, in lower case, name something that can be counted.

    `is_single` allows a noun in the singular, as behind 1 and 0.5.
    """
    if words[-1] in _PREPOSITIONS:
        return False
    if any(changes_quantity(word) or (len(word) == 1 and word != "a") for word in words):
        return False
    if any(_DESCRIBING.fullmatch(word) for word in words):
        return _PLURAL.fullmatch(words[-1]) is not None
    return is_single or any(word in _COUNTING or _PLURAL.fullmatch(word) for word in words)
